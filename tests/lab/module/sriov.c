// SPDX-License-Identifier: GPL-2.0
/* SR-IOV: VFs are real PCI functions; what the PF's administrator says about them is kept here and obeyed in wire.c. */
#include <linux/if_link.h>
#include <linux/if_vlan.h>
#include "simroce.h"

/* Switching on starts from the defaults: nothing said about earlier VFs survives. */
void sim_sriov_init(struct sim *s)
{
	int i;

	memset(s->vfs, 0, sizeof(s->vfs));
	for (i = 0; i < SIM_VFS; i++)
		s->vfs[i].proto = htons(ETH_P_8021Q);
}

int sim_sriov_configure(struct pci_dev *pdev, int count)
{
	int err;

	if (!count) {
		if (pci_vfs_assigned(pdev))
			return -EBUSY;
		pci_disable_sriov(pdev);
		return 0;
	}
	if (count > SIM_VFS)
		return -ERANGE;
	sim_sriov_init(pci_get_drvdata(pdev));
	err = pci_enable_sriov(pdev, count);
	return err ?: count;
}

static struct sim_vf *vf_of(struct net_device *dev, int vf)
{
	struct sim *s = S(dev);

	return vf >= 0 && vf < pci_num_vf(s->pdev) ? &s->vfs[vf] : NULL;
}

static struct sim *function_of(struct net_device *dev, int vf)
{
	struct sim *s;

	list_for_each_entry_rcu(s, &sim_functions, list, lockdep_rtnl_is_held())
		if (s->pf == S(dev) && s->vf == vf)
			return s;
	return NULL;
}

/* As with the real ones, a bound VF keeps its address until its driver is bound again. */
int sim_set_vf_mac(struct net_device *dev, int vf, u8 *mac)
{
	struct sim_vf *said = vf_of(dev, vf);

	if (!said || is_multicast_ether_addr(mac))
		return -EINVAL;
	ether_addr_copy(said->mac, mac);
	return 0;
}

int sim_set_vf_vlan(struct net_device *dev, int vf, u16 vlan, u8 qos, __be16 proto)
{
	struct sim_vf *said = vf_of(dev, vf);

	if (!said || vlan >= VLAN_N_VID || qos > 7)
		return -EINVAL;
	if (proto != htons(ETH_P_8021Q))
		return -EPROTONOSUPPORT;
	said->vlan = vlan;
	said->qos = qos;
	return 0;
}

int sim_set_vf_rate(struct net_device *dev, int vf, int min_rate, int max_rate)
{
	struct sim_vf *said = vf_of(dev, vf);

	if (!said || (max_rate && min_rate > max_rate) || max_rate > S(dev)->speed)
		return -EINVAL;
	said->min_rate = min_rate;
	said->max_rate = max_rate;
	return 0;
}

int sim_set_vf_spoofchk(struct net_device *dev, int vf, bool on)
{
	struct sim_vf *said = vf_of(dev, vf);

	if (!said)
		return -EINVAL;
	said->spoofchk = on;
	return 0;
}

int sim_set_vf_trust(struct net_device *dev, int vf, bool on)
{
	struct sim_vf *said = vf_of(dev, vf);

	if (!said)
		return -EINVAL;
	said->trust = on;
	return 0;
}

int sim_set_vf_link_state(struct net_device *dev, int vf, int state)
{
	struct sim_vf *said = vf_of(dev, vf);
	struct sim *function;

	if (!said)
		return -EINVAL;
	said->link_state = state;
	function = function_of(dev, vf);
	if (function && state == IFLA_VF_LINK_STATE_DISABLE)
		netif_carrier_off(function->dev);
	else if (function)
		netif_carrier_on(function->dev);
	return 0;
}

int sim_get_vf_config(struct net_device *dev, int vf, struct ifla_vf_info *info)
{
	struct sim_vf *said = vf_of(dev, vf);

	if (!said)
		return -EINVAL;
	info->vf = vf;
	ether_addr_copy(info->mac, said->mac);
	info->vlan = said->vlan;
	info->qos = said->qos;
	info->vlan_proto = said->proto;
	info->spoofchk = said->spoofchk;
	info->trusted = said->trust;
	info->linkstate = said->link_state;
	info->min_tx_rate = said->min_rate;
	info->max_tx_rate = said->max_rate;
	return 0;
}
