// SPDX-License-Identifier: GPL-2.0
/* Names of the counters as the drivers that are played call them. */
#include "simroce.h"

static const char * const mlx5_prio[N_PRIO] = {
	"rx_prio%d_bytes", "rx_prio%d_packets", "rx_prio%d_pause", "rx_prio%d_pause_duration", "rx_prio%d_buf_discard",
	"tx_prio%d_bytes", "tx_prio%d_packets", "tx_prio%d_pause", "tx_prio%d_pause_duration",
};

static const char * const bnxt_prio[N_PRIO] = {
	"rx_bytes_pri%d", "rx_packets_pri%d", "rx_pfc_ena_frames_pri%d", "pfc_pri%d_rx_duration_us", "rx_discard_bytes_cos%d",
	"tx_bytes_pri%d", "tx_packets_pri%d", "tx_pfc_ena_frames_pri%d", "pfc_pri%d_tx_duration_us",
};

static const char * const mlx5_port[N_PORT] = {
	"rx_pause_ctrl_phy", "tx_pause_ctrl_phy", "link_down_events_phy", "rx_discards_phy", "tx_discards_phy",
};

static const char * const bnxt_port[N_PORT] = {
	"rx_pause_frames", "tx_pause_frames", "link_down_events", "rx_total_discard_pkts", "tx_total_discard_pkts",
};

const struct rdma_stat_desc sim_rdma_counters[N_RDMA] = {
	{ .name = "np_cnp_sent" }, { .name = "np_ecn_marked_roce_packets" }, { .name = "rp_cnp_handled" },
	{ .name = "rp_cnp_ignored" }, { .name = "out_of_buffer" }, { .name = "out_of_sequence" },
	{ .name = "packet_seq_err" }, { .name = "local_ack_timeout_err" }, { .name = "rnr_nak_retry_err" },
	{ .name = "implied_nak_seq_err" }, { .name = "duplicate_request" }, { .name = "rx_write_requests" },
	{ .name = "rx_icrc_encapsulated" }, { .name = "roce_slow_restart" },
};

/* name: at least ETH_GSTRING_LEN bytes */
void sim_counter_name(const struct sim *s, int index, char *name)
{
	bool bnxt = s->like == LIKE_BNXT;

	if (index >= FIRST_RDMA)
		strscpy(name, sim_rdma_counters[index - FIRST_RDMA].name, ETH_GSTRING_LEN);
	else if (index >= FIRST_PORT)
		strscpy(name, (bnxt ? bnxt_port : mlx5_port)[index - FIRST_PORT], ETH_GSTRING_LEN);
	else
		snprintf(name, ETH_GSTRING_LEN, (bnxt ? bnxt_prio : mlx5_prio)[index / SIM_PRIOS], index % SIM_PRIOS);
}
