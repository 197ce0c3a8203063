// SPDX-License-Identifier: GPL-2.0
/* The wires: functions on one wire hear each other, each card being a small switch for its own PF and VFs. */
#include <linux/if_vlan.h>
#include "simroce.h"

#define PFC_OPCODE	0x0101
#define PAUSE_OPCODE	0x0001
#define QUANTUM_BITS	512

struct mac_control {
	struct ethhdr eth;
	__be16 opcode;
	union {
		struct { __be16 classes, quanta[SIM_PRIOS]; } pfc;
		__be16 quanta;
	};
} __packed;

/* The other end of a back-to-back cable: the first other card on this wire. Under RCU or rtnl. */
struct sim *sim_neighbour(struct sim *s)
{
	struct sim *other;

	list_for_each_entry_rcu(other, &sim_functions, list, lockdep_rtnl_is_held())
		if (other->card != s->card && !other->pf && !strcmp(other->wire, s->wire))
			return other;
	return NULL;
}

static u64 quanta_to_us(struct sim *s, u64 quanta)
{
	return div_u64(quanta * QUANTUM_BITS, s->speed ?: 1);	/* Mb/s is bits per µs */
}

/* A MAC consumes PFC and pause frames: hosts never see them, they only count. */
static bool consumed(struct sim *s, const struct sk_buff *skb)
{
	const struct mac_control *frame = (const void *)skb->data;
	struct sim *peer = sim_neighbour(s);
	u64 us;
	int i;

	if (skb_headlen(skb) < sizeof(*frame) || frame->eth.h_proto != htons(ETH_P_PAUSE))
		return false;
	if (frame->opcode == htons(PAUSE_OPCODE)) {
		sim_count(s, FIRST_PORT + PORT_TX_PAUSE, 1);
		if (peer)
			sim_count(peer, FIRST_PORT + PORT_RX_PAUSE, 1);
		return true;
	}
	if (frame->opcode != htons(PFC_OPCODE))
		return false;
	for (i = 0; i < SIM_PRIOS; i++) {
		if (!(ntohs(frame->pfc.classes) & BIT(i)))
			continue;
		us = quanta_to_us(s, ntohs(frame->pfc.quanta[i]));
		sim_count_prio(s, TX_PAUSE, i, 1);
		sim_count_prio(s, TX_DURATION, i, us);
		if (peer) {
			sim_count_prio(peer, RX_PAUSE, i, 1);
			sim_count_prio(peer, RX_DURATION, i, us);
		}
	}
	return true;
}

static struct sim_vf *said_of(struct sim *s)
{
	return s->pf ? &s->pf->vfs[s->vf] : NULL;
}

static bool hears(struct sim *s, const struct sk_buff *skb, u16 vlan)
{
	const struct ethhdr *eth = (const void *)skb->data;
	struct sim_vf *said = said_of(s);

	if (!netif_running(s->dev) || !netif_carrier_ok(s->dev))
		return false;
	if (said && said->vlan && said->vlan != vlan)
		return false;
	return is_multicast_ether_addr(eth->h_dest) || ether_addr_equal(eth->h_dest, s->dev->dev_addr) ||
	       s->dev->flags & IFF_PROMISC;
}

static void hand_over(struct sim *s, struct sk_buff *skb, u16 vlan, int prio)
{
	struct sim_vf *said = said_of(s);
	unsigned int length = skb->len;

	if (said && said->vlan)
		__vlan_hwaccel_clear_tag(skb);
	else if (vlan)
		__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), vlan | prio << VLAN_PRIO_SHIFT);
	if (dev_forward_skb(s->dev, skb) != NET_RX_SUCCESS) {
		sim_count(s, FIRST_PORT + PORT_RX_DISCARDS, 1);
		return;
	}
	dev_sw_netstats_rx_add(s->dev, length);
	sim_count_prio(s, RX_BYTES, prio, length);
	sim_count_prio(s, RX_PACKETS, prio, 1);
}

static bool spoofed(struct sim *s, const struct sk_buff *skb)
{
	const struct ethhdr *eth = (const void *)skb->data;
	struct sim_vf *said = said_of(s);

	return said && said->spoofchk && is_valid_ether_addr(said->mac) && !ether_addr_equal(eth->h_source, said->mac);
}

static void spread(struct sim *s, struct sk_buff *skb)
{
	struct sim_vf *said = said_of(s);
	u16 vlan = said && said->vlan ? said->vlan : skb_vlan_tag_present(skb) ? skb_vlan_tag_get_id(skb) : 0;
	struct sk_buff *copy;
	struct sim *other;
	int prio;

	list_for_each_entry_rcu(other, &sim_functions, list) {
		if (other == s || strcmp(other->wire, s->wire) || !hears(other, skb, vlan))
			continue;
		copy = skb_clone(skb, GFP_ATOMIC);
		if (!copy)
			break;
		prio = sim_prio_of(other->pf ?: other, skb);
		hand_over(other, copy, vlan, prio);
	}
}

netdev_tx_t sim_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct sim *s = S(dev);
	int prio = sim_prio_of(s->pf ?: s, skb);

	if (spoofed(s, skb)) {
		sim_count(s, FIRST_PORT + PORT_TX_DISCARDS, 1);
		dev_core_stats_tx_dropped_inc(dev);
	} else {
		dev_sw_netstats_tx_add(dev, 1, skb->len);
		sim_count_prio(s, TX_BYTES, prio, skb->len);
		sim_count_prio(s, TX_PACKETS, prio, 1);
		rcu_read_lock();
		if (!consumed(s, skb))
			spread(s, skb);
		rcu_read_unlock();
	}
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}
