/* SPDX-License-Identifier: GPL-2.0 */
/* simroce - RoCE NICs without RoCE hardware: see README.md. */
#ifndef SIMROCE_H
#define SIMROCE_H

#include <linux/dcbnl.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <net/dcbnl.h>
#include <rdma/ib_verbs.h>

#define SIM_CARDS	16
#define SIM_VFS		7		/* what the emulated igb offers */
#define SIM_PRIOS	IEEE_8021QAZ_MAX_TCS

enum sim_like { LIKE_MLX5, LIKE_BNXT, LIKE_LENIENT, LIKE_LIAR };

/* Bits of the debugfs file "fail": this step answers -EIO. */
enum sim_step {
	STEP_ETS, STEP_MAXRATE, STEP_PFC, STEP_BUFFER, STEP_APP, STEP_TRUST, STEP_REWR, STEP_PAUSE, STEP_DCBX,
};

/* Counters: per priority, of the port, of the RDMA device. Names are in counters.c. */
enum { RX_BYTES, RX_PACKETS, RX_PAUSE, RX_DURATION, RX_DISCARD, TX_BYTES, TX_PACKETS, TX_PAUSE, TX_DURATION, N_PRIO };
enum { PORT_RX_PAUSE, PORT_TX_PAUSE, PORT_LINK_DOWN, PORT_RX_DISCARDS, PORT_TX_DISCARDS, N_PORT };
#define N_RDMA		14
#define FIRST_PORT	(N_PRIO * SIM_PRIOS)
#define FIRST_RDMA	(FIRST_PORT + N_PORT)
#define N_COUNTERS	(FIRST_RDMA + N_RDMA)

/* What the PF's administrator has said about one VF. */
struct sim_vf {
	u8 mac[ETH_ALEN];
	u16 vlan;
	u8 qos;
	__be16 proto;
	int min_rate, max_rate, link_state;
	bool spoofchk, trust;
};

struct sim_rdma;

/* One function of a card, PF or VF: the private part of its net_device. */
struct sim {
	struct net_device *dev;
	struct pci_dev *pdev;
	struct sim *pf;			/* NULL on a PF */
	struct sim *second;		/* the other port of a PF with two; NULL on the second itself */
	int card, vf;			/* vf is -1 on a PF */
	enum sim_like like;
	char wire[16];
	struct list_head list;		/* of sim_functions */
	struct sim_rdma *rdma;
	struct dentry *debug, *cc;
	atomic64_t counters[N_COUNTERS];
	u32 fail, flaps, trust_dscp, speed, firmware, priv_flags, strict_buffers;
	struct ethtool_pauseparam pause;

	/* DCB */
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct ieee_maxrate rate;
	struct dcbnl_buffer buf;
	u8 dcbx, dscp2prio[64];
	u32 napp;
	bool ets_done;
	u8 trust[IEEE_8021QAZ_APP_SEL_MAX + 1];
	int ntrust;

	struct sim_vf vfs[SIM_VFS];
};

#define S(dev) ((struct sim *)netdev_priv(dev))

extern struct list_head sim_functions;	/* RCU; changed under sim_lock */
extern const struct dcbnl_rtnl_ops sim_dcb_ops;
extern const struct ethtool_ops sim_ethtool_ops;
extern const struct net_device_ops sim_pf_ops, sim_vf_ops;

/* wire.c */
netdev_tx_t sim_xmit(struct sk_buff *skb, struct net_device *dev);
struct sim *sim_neighbour(struct sim *s);

/* counters.c */
extern const struct rdma_stat_desc sim_rdma_counters[N_RDMA];
void sim_counter_name(const struct sim *s, int index, char *name);
static inline void sim_count(struct sim *s, int index, u64 by) { atomic64_add(by, &s->counters[index]); }
static inline void sim_count_prio(struct sim *s, int what, int prio, u64 by)
{
	sim_count(s, what * SIM_PRIOS + prio, by);
}

static inline bool sim_fails(const struct sim *s, enum sim_step step) { return s->fail & BIT(step); }

/* bnxt: the host may configure only while it owns DCBX. */
static inline bool sim_denied(const struct sim *s)
{
	const u8 host = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;

	return s->like == LIKE_BNXT && (s->dcbx & host) != host;
}

/* Where a SET starts: an injected error, the liar's silence, or on with it. */
#define SIM_BEGIN(s, step) do {			\
	if (sim_fails(s, step))			\
		return -EIO;			\
	if ((s)->like == LIKE_LIAR)		\
		return 0;			\
	if (sim_denied(s))				\
		return -EINVAL;			\
} while (0)

/* dcb.c */
void sim_dcb_init(struct sim *s);

/* dcb_app.c */
int sim_set_app(struct net_device *dev, struct dcb_app *app);
int sim_del_app(struct net_device *dev, struct dcb_app *app);
int sim_peer_appinfo(struct net_device *dev, struct dcb_peer_app_info *info, u16 *count);
int sim_peer_apptable(struct net_device *dev, struct dcb_app *table);
int sim_get_trust(struct net_device *dev, u8 *selectors, int *count);
int sim_set_trust(struct net_device *dev, u8 *selectors, int count);
int sim_set_rewr(struct net_device *dev, struct dcb_app *app);
int sim_del_rewr(struct net_device *dev, struct dcb_app *app);
int sim_prio_of(struct sim *s, const struct sk_buff *skb);

/* sriov.c */
void sim_sriov_init(struct sim *s);
int sim_sriov_configure(struct pci_dev *pdev, int count);
int sim_set_vf_mac(struct net_device *dev, int vf, u8 *mac);
int sim_set_vf_vlan(struct net_device *dev, int vf, u16 vlan, u8 qos, __be16 proto);
int sim_set_vf_rate(struct net_device *dev, int vf, int min_rate, int max_rate);
int sim_set_vf_spoofchk(struct net_device *dev, int vf, bool on);
int sim_set_vf_trust(struct net_device *dev, int vf, bool on);
int sim_set_vf_link_state(struct net_device *dev, int vf, int state);
int sim_get_vf_config(struct net_device *dev, int vf, struct ifla_vf_info *info);

/* rdma.c */
int sim_rdma_add(struct sim *s);
void sim_rdma_del(struct sim *s);

/* knobs.c */
void sim_knobs_init(void);
void sim_knobs_exit(void);
void sim_knobs_add(struct sim *s);
void sim_knobs_del(struct sim *s);

#endif
