// SPDX-License-Identifier: GPL-2.0
/* The APP table, trust and rewriting: which priority a frame is put on. */
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/dsfield.h>
#include "simroce.h"

/* mlx5: DSCP only; a new priority replaces the old one; the first entry switches trust to DSCP. */
static int mlx5_setapp(struct sim *s, struct dcb_app *app)
{
	struct dcb_app old = *app;
	bool is_new;
	int err;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= 64)
		return -EINVAL;
	old.priority = s->dscp2prio[app->protocol];
	is_new = dcb_ieee_delapp(s->dev, &old);
	err = dcb_ieee_setapp(s->dev, app);
	if (err)
		return err;
	s->dscp2prio[app->protocol] = app->priority;
	s->napp += is_new;
	s->trust_dscp = 1;
	return 0;
}

int sim_set_app(struct net_device *dev, struct dcb_app *app)
{
	struct sim *s = S(dev);
	int err;

	if (sim_fails(s, STEP_APP))
		return -EIO;
	if (sim_denied(s))
		return -EINVAL;
	if (s->like == LIKE_MLX5)
		return mlx5_setapp(s, app);
	err = dcb_ieee_setapp(dev, app);	/* the core's table: a second priority is a second entry */
	if (!err && app->selector == IEEE_8021QAZ_APP_SEL_DSCP && app->protocol < 64)
		s->dscp2prio[app->protocol] = app->priority;
	return err;
}

int sim_del_app(struct net_device *dev, struct dcb_app *app)
{
	struct sim *s = S(dev);
	bool dscp = app->selector == IEEE_8021QAZ_APP_SEL_DSCP && app->protocol < 64;
	int err;

	if (sim_fails(s, STEP_APP))
		return -EIO;
	if (sim_denied(s))
		return -EINVAL;
	if (s->like == LIKE_MLX5 && !dscp)
		return -EINVAL;
	if (s->like == LIKE_MLX5 && (!s->napp || s->dscp2prio[app->protocol] != app->priority))
		return -ENOENT;
	err = dcb_ieee_delapp(dev, app);
	if (err)
		return err;
	if (dscp)
		s->dscp2prio[app->protocol] = 0;	/* not its default: a deleted DSCP goes to priority 0 */
	if (s->like == LIKE_MLX5 && !--s->napp)
		s->trust_dscp = 0;			/* the last one gone, mlx5 trusts PCP again */
	return 0;
}

/* What the neighbour advertises: a DSCP's highest priority, as a receiver would take it. */
static u16 peer_apps(struct net_device *dev, struct dcb_app *table)
{
	struct sim *peer = sim_neighbour(S(dev));
	struct dcb_ieee_app_dscp_map map;
	u16 count = 0;
	int i;

	if (!peer)
		return 0;
	dcb_ieee_getapp_dscp_prio_mask_map(peer->dev, &map);
	for (i = 0; i < ARRAY_SIZE(map.map); i++) {
		if (!map.map[i])
			continue;
		if (table)
			table[count] = (struct dcb_app){ IEEE_8021QAZ_APP_SEL_DSCP, fls(map.map[i]) - 1, i };
		count++;
	}
	return count;
}

int sim_peer_appinfo(struct net_device *dev, struct dcb_peer_app_info *info, u16 *count)
{
	info->willing = info->error = 0;
	*count = peer_apps(dev, NULL);
	return 0;
}

int sim_peer_apptable(struct net_device *dev, struct dcb_app *table)
{
	peer_apps(dev, table);
	return 0;
}

int sim_get_trust(struct net_device *dev, u8 *selectors, int *count)
{
	struct sim *s = S(dev);

	memcpy(selectors, s->trust, s->ntrust);
	*count = s->ntrust;
	return 0;
}

int sim_set_trust(struct net_device *dev, u8 *selectors, int count)
{
	struct sim *s = S(dev);

	SIM_BEGIN(s, STEP_TRUST);
	memcpy(s->trust, selectors, count);
	s->ntrust = count;
	return 0;
}

int sim_set_rewr(struct net_device *dev, struct dcb_app *app)
{
	SIM_BEGIN(S(dev), STEP_REWR);
	return dcb_setrewr(dev, app);
}

int sim_del_rewr(struct net_device *dev, struct dcb_app *app)
{
	SIM_BEGIN(S(dev), STEP_REWR);
	return dcb_delrewr(dev, app);
}

static bool trusts_dscp(const struct sim *s)
{
	return s->trust_dscp || memchr(s->trust, IEEE_8021QAZ_APP_SEL_DSCP, s->ntrust);
}

/* The priority that this NIC puts a frame on: its tag's, or its DSCP's where DSCP is trusted. */
int sim_prio_of(struct sim *s, const struct sk_buff *skb)
{
	const struct ethhdr *eth = (const void *)skb->data;
	const void *network = eth + 1;

	if (trusts_dscp(s) && eth->h_proto == htons(ETH_P_IP) && skb_headlen(skb) >= ETH_HLEN + sizeof(struct iphdr))
		return s->dscp2prio[ipv4_get_dsfield(network) >> 2];
	if (trusts_dscp(s) && eth->h_proto == htons(ETH_P_IPV6) && skb_headlen(skb) >= ETH_HLEN + sizeof(struct ipv6hdr))
		return s->dscp2prio[ipv6_get_dsfield(network) >> 2];
	return skb_vlan_tag_present(skb) ? skb_vlan_tag_get_prio(skb) : 0;
}
