// SPDX-License-Identifier: GPL-2.0
/* IEEE DCB: what each personality takes, refuses, forgets or pretends to have taken; the APP table is in dcb_app.c. */
#include "simroce.h"

#define BUFFER_TOTAL	262016
#define BUFFER_FIRST	130944
#define PFC_CABLE_M	7		/* mlx5's default for "delay" */
#define MLX5_MAX_MTU	9978
#define MLX5_CELL	128
#define BNXT_LOSSLESS	2		/* lossless traffic classes that bnxt's firmware grants */

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = S(dev)->ets;
	return 0;
}

static int check_ets(const struct ieee_ets *ets)
{
	int i, sum = 0;
	bool any = false;

	for (i = 0; i < SIM_PRIOS; i++) {
		if (ets->prio_tc[i] >= SIM_PRIOS)
			return -EINVAL;
		if (ets->tc_tsa[i] == IEEE_8021QAZ_TSA_CB_SHAPER)
			return -EOPNOTSUPP;
		if (ets->tc_tsa[i] == IEEE_8021QAZ_TSA_ETS) {
			any = true;
			sum += ets->tc_tx_bw[i];
		} else if (ets->tc_tx_bw[i]) {
			return -EINVAL;
		}
	}
	return any && sum != 100 ? -EINVAL : 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct sim *s = S(dev);
	u8 cap = s->ets.ets_cap;
	int err;

	SIM_BEGIN(s, STEP_ETS);
	err = s->like == LIKE_LENIENT ? 0 : check_ets(ets);
	if (err)
		return err;
	s->ets = *ets;
	s->ets.ets_cap = cap;
	s->ets_done = true;
	return 0;
}

static int get_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	*rate = S(dev)->rate;
	return 0;
}

/* mlx5 rounds up to units of 100 Mb/s, and of 1 Gb/s above 25.5 Gb/s. */
static u64 rounded(u64 kbps)
{
	const u64 unit = kbps > 25500000 ? 1000000 : 100000;

	return roundup_u64(kbps, unit);
}

static int set_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	struct sim *s = S(dev);
	int i;

	SIM_BEGIN(s, STEP_MAXRATE);
	for (i = 0; i < SIM_PRIOS; i++)
		s->rate.tc_maxrate[i] = s->like == LIKE_MLX5 ? rounded(rate->tc_maxrate[i]) : rate->tc_maxrate[i];
	return 0;
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct sim *s = S(dev);
	int i;

	*pfc = s->pfc;
	for (i = 0; i < SIM_PRIOS; i++) {
		pfc->requests[i] = atomic64_read(&s->counters[TX_PAUSE * SIM_PRIOS + i]);
		pfc->indications[i] = atomic64_read(&s->counters[RX_PAUSE * SIM_PRIOS + i]);
	}
	return 0;
}

/* The buffers that a lossless priority is in; under global pause, which is for all, every one that is used. */
static u8 lossless(struct sim *s, u8 pfc_en, const u8 *prio2buffer)
{
	u8 found = 0;
	int i;

	for (i = 0; i < SIM_PRIOS; i++)
		if (s->pause.rx_pause || s->pause.tx_pause || pfc_en & (1 << i))
			found |= 1 << prio2buffer[i];
	return found;
}

/* As update_xoff_threshold() of mlx5's port_buffer.c, once the host has taken the buffers from the firmware. */
static bool cramped(struct sim *s, u8 lossless, const u32 *size, u16 cable)
{
	u32 xoff = (301 + 216 * cable / 100) * s->speed / 1000 + 272 * s->dev->mtu / 100;
	int i;

	for (i = 0; i < SIM_PRIOS; i++)
		if (lossless & (1 << i) && size[i] < xoff + MLX5_MAX_MTU + MLX5_CELL)
			return true;
	return false;
}

/* As mlx5e_port_manual_buffer_config(): priorities move on the old sizes, then sizes are looked at. */
static int mlx5_buffers(struct sim *s, const struct dcbnl_buffer *buf)
{
	u8 now = lossless(s, s->pfc.pfc_en, s->buf.prio2buffer);
	u8 then = lossless(s, s->pfc.pfc_en, buf->prio2buffer);

	if (now != then && cramped(s, then, s->buf.buffer_size, s->pfc.delay))
		return -ENOMEM;
	if (memcmp(s->buf.buffer_size, buf->buffer_size, sizeof(buf->buffer_size)) &&
	    cramped(s, then, buf->buffer_size, s->pfc.delay))
		return -ENOMEM;
	return 0;
}

/* mlx5 and bnxt toggle the port when the set of lossless priorities changes. */
static void flap(struct sim *s)
{
	s->flaps++;
	sim_count(s, FIRST_PORT + PORT_LINK_DOWN, 1);
	netif_carrier_off(s->dev);
	netif_carrier_on(s->dev);
}

static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct sim *s = S(dev);
	bool changed = s->pfc.pfc_en != pfc->pfc_en;

	SIM_BEGIN(s, STEP_PFC);
	if (s->like == LIKE_BNXT && (!s->ets_done || hweight8(pfc->pfc_en) > BNXT_LOSSLESS))
		return -EINVAL;
	if (s->strict_buffers &&
	    cramped(s, lossless(s, pfc->pfc_en, s->buf.prio2buffer), s->buf.buffer_size, pfc->delay))
		return -ENOMEM;
	s->pfc.pfc_en = pfc->pfc_en;
	s->pfc.mbc = pfc->mbc;
	s->pfc.delay = pfc->delay;
	if (changed && s->like != LIKE_LENIENT)
		flap(s);
	return 0;
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *buf)
{
	*buf = S(dev)->buf;
	return 0;
}

static int set_buffer(struct net_device *dev, struct dcbnl_buffer *buf)
{
	struct sim *s = S(dev);
	u64 sum = 0;
	int i, err;

	SIM_BEGIN(s, STEP_BUFFER);
	for (i = 0; i < SIM_PRIOS; i++) {
		if (buf->prio2buffer[i] >= SIM_PRIOS)
			return -EINVAL;
		sum += buf->buffer_size[i];
	}
	if (sum > s->buf.total_size)
		return -EINVAL;
	err = s->strict_buffers ? mlx5_buffers(s, buf) : 0;
	if (err)
		return err;
	buf->total_size = s->buf.total_size;
	s->buf = *buf;
	return 0;
}

/* What the neighbour advertises is what it has. */
static int peer_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct sim *peer = sim_neighbour(S(dev));

	if (!peer)
		return -EOPNOTSUPP;
	*ets = peer->ets;
	return 0;
}

static int peer_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct sim *peer = sim_neighbour(S(dev));

	if (!peer)
		return -EOPNOTSUPP;
	*pfc = peer->pfc;
	return 0;
}

static u8 get_dcbx(struct net_device *dev)
{
	return S(dev)->dcbx;
}

/* 0 is success, 1 a refusal. */
static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	struct sim *s = S(dev);

	if (sim_fails(s, STEP_DCBX) || mode & DCB_CAP_DCBX_VER_CEE)
		return 1;
	if (s->like != LIKE_LIAR)
		s->dcbx = mode ?: DCB_CAP_DCBX_LLD_MANAGED | DCB_CAP_DCBX_VER_IEEE;
	return 0;
}

static u8 get_cap(struct net_device *dev, int id, u8 *cap)
{
	*cap = id == DCB_CAP_ATTR_DCBX ? S(dev)->dcbx : id == DCB_CAP_ATTR_PFC || id == DCB_CAP_ATTR_PG;
	return 0;
}

const struct dcbnl_rtnl_ops sim_dcb_ops = {
	.ieee_getets = get_ets, .ieee_setets = set_ets,
	.ieee_getmaxrate = get_maxrate, .ieee_setmaxrate = set_maxrate,
	.ieee_getpfc = get_pfc, .ieee_setpfc = set_pfc,
	.ieee_setapp = sim_set_app, .ieee_delapp = sim_del_app,
	.ieee_peer_getets = peer_ets, .ieee_peer_getpfc = peer_pfc,
	.peer_getappinfo = sim_peer_appinfo, .peer_getapptable = sim_peer_apptable,
	.dcbnl_getbuffer = get_buffer, .dcbnl_setbuffer = set_buffer,
	.getdcbx = get_dcbx, .setdcbx = set_dcbx, .getcap = get_cap,
	.dcbnl_getapptrust = sim_get_trust, .dcbnl_setapptrust = sim_set_trust,
	.dcbnl_setrewr = sim_set_rewr, .dcbnl_delrewr = sim_del_rewr,
};

/* Before register_netdev(). */
void sim_dcb_init(struct sim *s)
{
	int i;

	s->dev->dcbnl_ops = &sim_dcb_ops;
	s->ets.ets_cap = s->pfc.pfc_cap = SIM_PRIOS;
	s->pfc.delay = PFC_CABLE_M;
	for (i = 0; i < SIM_PRIOS; i++) {
		s->ets.prio_tc[i] = i == 0 ? 1 : i == 1 ? 0 : i;	/* mlx5 at power-on */
		s->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
	}
	for (i = 0; i < 64; i++)
		s->dscp2prio[i] = i >> 3;
	s->buf.total_size = BUFFER_TOTAL;
	s->buf.buffer_size[0] = BUFFER_FIRST;
	s->dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
	if (s->like == LIKE_BNXT)
		s->dcbx = DCB_CAP_DCBX_LLD_MANAGED | DCB_CAP_DCBX_VER_IEEE;
}
