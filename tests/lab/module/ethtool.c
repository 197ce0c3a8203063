// SPDX-License-Identifier: GPL-2.0
/* ethtool: driver, link, pause, private flags, statistics. */
#include "simroce.h"

static const char priv_flags[][ETH_GSTRING_LEN] = { "fw-lldp-agent" };
#define FLAG_LLDP BIT(0)

static void get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	static const char * const names[] = { "mlx5_core", "bnxt_en", "simroce", "simroce" };
	struct sim *s = S(dev);

	strscpy(info->driver, names[s->like]);
	strscpy(info->bus_info, pci_name(s->pdev));
	snprintf(info->fw_version, sizeof(info->fw_version), "22.41.%04u", s->firmware);
}

static int get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *link)
{
	link->base.speed = netif_carrier_ok(dev) ? S(dev)->speed : SPEED_UNKNOWN;
	link->base.duplex = DUPLEX_FULL;
	link->base.port = PORT_DA;
	return 0;
}

static void get_pauseparam(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	*pause = S(dev)->pause;
}

static int set_pauseparam(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct sim *s = S(dev);

	if (sim_fails(s, STEP_PAUSE))
		return -EIO;
	if (s->like == LIKE_MLX5 && pause->autoneg)
		return -EINVAL;
	if (s->like != LIKE_LIAR)
		s->pause = *pause;
	return 0;
}

static int get_sset_count(struct net_device *dev, int set)
{
	switch (set) {
	case ETH_SS_STATS:
		return FIRST_RDMA;
	case ETH_SS_PRIV_FLAGS:
		return ARRAY_SIZE(priv_flags);
	default:
		return -EOPNOTSUPP;
	}
}

static void get_strings(struct net_device *dev, u32 set, u8 *names)
{
	int i;

	if (set == ETH_SS_PRIV_FLAGS)
		memcpy(names, priv_flags, sizeof(priv_flags));
	if (set == ETH_SS_STATS)
		for (i = 0; i < FIRST_RDMA; i++)
			sim_counter_name(S(dev), i, names + ETH_GSTRING_LEN * i);
}

static void get_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *values)
{
	int i;

	for (i = 0; i < FIRST_RDMA; i++)
		values[i] = atomic64_read(&S(dev)->counters[i]);
}

static u32 get_priv_flags(struct net_device *dev)
{
	return S(dev)->priv_flags;
}

/* The firmware's own LLDP agent: while it runs, DCB belongs to it. */
static int set_priv_flags(struct net_device *dev, u32 flags)
{
	struct sim *s = S(dev);

	s->priv_flags = flags;
	s->dcbx = DCB_CAP_DCBX_VER_IEEE | (flags & FLAG_LLDP ? DCB_CAP_DCBX_LLD_MANAGED : DCB_CAP_DCBX_HOST);
	return 0;
}

const struct ethtool_ops sim_ethtool_ops = {
	.get_drvinfo = get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = get_link_ksettings,
	.get_pauseparam = get_pauseparam,
	.set_pauseparam = set_pauseparam,
	.get_sset_count = get_sset_count,
	.get_strings = get_strings,
	.get_ethtool_stats = get_stats,
	.get_priv_flags = get_priv_flags,
	.set_priv_flags = set_priv_flags,
};
