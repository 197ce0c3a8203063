// SPDX-License-Identifier: GPL-2.0
/* simroce: the PCI driver, one net_device and one ib_device per function. */
#include <linux/module.h>
#include "simroce.h"

static char *cards[SIM_CARDS];
static int ncards;
module_param_array(cards, charp, &ncards, 0444);
MODULE_PARM_DESC(cards, "PCI functions to drive, as ADDRESS/LIKE/WIRE, e.g. 0000:24:00.0/mlx5/a; sim0 is the first. "
		 "WIRE+WIRE makes two ports of one function, as ConnectX-3 has them");

LIST_HEAD(sim_functions);
static DEFINE_SPINLOCK(sim_lock);

static const char * const likes[] = { "mlx5", "bnxt", "lenient", "liar" };

const struct net_device_ops sim_pf_ops = {
	.ndo_start_xmit = sim_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_set_vf_mac = sim_set_vf_mac,
	.ndo_set_vf_vlan = sim_set_vf_vlan,
	.ndo_set_vf_rate = sim_set_vf_rate,
	.ndo_set_vf_spoofchk = sim_set_vf_spoofchk,
	.ndo_set_vf_trust = sim_set_vf_trust,
	.ndo_set_vf_link_state = sim_set_vf_link_state,
	.ndo_get_vf_config = sim_get_vf_config,
};

const struct net_device_ops sim_vf_ops = {
	.ndo_start_xmit = sim_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

/* The card's number if it is listed in cards=, with its personality and wire; else -ENODEV. */
static int listed(struct pci_dev *pdev, enum sim_like *like, char *wire)
{
	char address[16], name[16];
	int i, j;

	for (i = 0; i < ncards; i++) {
		if (sscanf(cards[i], "%15[^/]/%15[^/]/%15s", address, name, wire) != 3)
			continue;
		if (strcmp(address, pci_name(pdev)))
			continue;
		for (j = 0; j < ARRAY_SIZE(likes); j++)
			if (!strcmp(name, likes[j])) {
				*like = j;
				return i;
			}
		pci_err(pdev, "simroce: no personality \"%s\"\n", name);
	}
	return -ENODEV;
}

static void setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->ethtool_ops = &sim_ethtool_ops;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->features |= NETIF_F_HW_VLAN_CTAG_TX | NETIF_F_HW_VLAN_CTAG_RX;
	dev->hw_features |= NETIF_F_HW_VLAN_CTAG_TX | NETIF_F_HW_VLAN_CTAG_RX;
	dev->max_mtu = 9978;
}

static void init_pf(struct sim *s)
{
	const u8 mac[ETH_ALEN] = { 0x02, 0x51, 0x52, 0x4f, 0x43, s->card | s->dev->dev_port << 7 };

	eth_hw_addr_set(s->dev, mac);
	s->dev->netdev_ops = &sim_pf_ops;
	sim_dcb_init(s);
	sim_sriov_init(s);
}

static void init_vf(struct sim *s)
{
	struct sim_vf *said = &s->pf->vfs[s->vf];

	if (is_valid_ether_addr(said->mac))
		eth_hw_addr_set(s->dev, said->mac);
	else
		eth_hw_addr_random(s->dev);
	s->dev->netdev_ops = &sim_vf_ops;
}

static struct sim *make(struct pci_dev *pdev, struct sim *pf, int card, int vf, int port)
{
	struct net_device *dev;
	char name[IFNAMSIZ];
	struct sim *s;

	if (pf)
		snprintf(name, sizeof(name), "sim%dv%d", card, vf);
	else if (port)
		snprintf(name, sizeof(name), "sim%dd%d", card, port);
	else
		snprintf(name, sizeof(name), "sim%d", card);
	dev = alloc_netdev(sizeof(*s), name, NET_NAME_ENUM, setup);
	if (!dev)
		return NULL;
	SET_NETDEV_DEV(dev, &pdev->dev);
	dev->dev_port = port;
	s = S(dev);
	s->dev = dev;
	s->pdev = pdev;
	s->pf = pf;
	s->card = card;
	s->vf = vf;
	s->speed = SPEED_400000;
	s->firmware = 1000;
	s->pause.rx_pause = s->pause.tx_pause = 1;	/* the usual wrong default */
	return s;
}

/* One port: its network device, on the wire. */
static int add_port(struct sim *s)
{
	int err;

	netif_carrier_off(s->dev);
	err = register_netdev(s->dev);
	if (err)
		return err;
	netif_carrier_on(s->dev);
	spin_lock_bh(&sim_lock);
	list_add_tail_rcu(&s->list, &sim_functions);
	spin_unlock_bh(&sim_lock);
	sim_knobs_add(s);
	return 0;
}

static void remove_port(struct sim *s)
{
	sim_knobs_del(s);
	spin_lock_bh(&sim_lock);
	list_del_rcu(&s->list);
	spin_unlock_bh(&sim_lock);
	unregister_netdev(s->dev);	/* waits for readers; the core flushes the APP and rewrite tables */
}

static int add(struct sim *s)
{
	int err;

	err = add_port(s);
	if (err)
		return err;
	if (s->second) {
		err = add_port(s->second);
		if (err) {
			remove_port(s);
			return err;
		}
	}
	pci_set_drvdata(s->pdev, s);
	err = sim_rdma_add(s);
	if (err)
		netdev_warn(s->dev, "no RDMA device: error %d\n", err);
	return 0;
}

/* The second port of a card whose wire is "a+b"; the first keeps "a". */
static int make_second(struct sim *s)
{
	char *wire = strchr(s->wire, '+');

	if (!wire)
		return 0;
	s->second = make(s->pdev, NULL, s->card, -1, 1);
	if (!s->second)
		return -ENOMEM;
	*wire++ = 0;
	strscpy(s->second->wire, wire);
	s->second->like = s->like;
	init_pf(s->second);
	return 0;
}

static void free_ports(struct sim *s)
{
	if (s->second)
		free_netdev(s->second->dev);
	free_netdev(s->dev);
}

static struct pci_driver driver;

/* The PF that a VF belongs to, if it is one of ours. */
static struct sim *pf_of(struct pci_dev *vf)
{
	struct pci_dev *pf = pci_physfn(vf);

	return pci_dev_driver(pf) == &driver ? pci_get_drvdata(pf) : NULL;
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	enum sim_like like = LIKE_MLX5;
	struct sim *s, *pf = NULL;
	int card, vf = -1, err;
	char wire[16] = "";

	if (pdev->is_virtfn) {
		pf = pf_of(pdev);
		if (!pf)
			return -ENODEV;
		vf = pci_iov_vf_id(pdev);
		card = pf->card;
		like = pf->like;
		strscpy(wire, pf->wire);
	} else {
		card = listed(pdev, &like, wire);
		if (card < 0)
			return card;
	}
	s = make(pdev, pf, card, vf, 0);
	if (!s)
		return -ENOMEM;
	s->like = like;
	strscpy(s->wire, wire);
	if (pf) {
		init_vf(s);
	} else {
		pci_sriov_set_totalvfs(pdev, SIM_VFS);
		init_pf(s);
	}
	err = pf ? 0 : make_second(s);
	if (!err)
		err = pci_enable_device(pdev);
	if (!err) {
		pci_set_master(pdev);
		err = add(s);
		if (err)
			pci_disable_device(pdev);
	}
	if (err)
		free_ports(s);
	return err;
}

static void remove(struct pci_dev *pdev)
{
	struct sim *s = pci_get_drvdata(pdev);

	if (!pdev->is_virtfn)
		pci_disable_sriov(pdev);
	sim_rdma_del(s);
	if (s->second)
		remove_port(s->second);
	remove_port(s);
	pci_set_drvdata(pdev, NULL);
	pci_disable_device(pdev);
	free_ports(s);
}

/* QEMU's igb and its VFs. PFs that cards= does not name, and their VFs, are left to the real driver. */
static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_INTEL, 0x10c9) },
	{ PCI_DEVICE(PCI_VENDOR_ID_INTEL, 0x10ca) },
	{}
};

static struct pci_driver driver = {
	.name = "simroce",
	.id_table = ids,
	.probe = probe,
	.remove = remove,
	.sriov_configure = sim_sriov_configure,
};

static int __init init(void)
{
	int err;

	sim_knobs_init();
	err = pci_register_driver(&driver);
	if (err)
		sim_knobs_exit();
	return err;
}

static void __exit fini(void)
{
	pci_unregister_driver(&driver);
	sim_knobs_exit();
}

module_init(init);
module_exit(fini);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Simulated RoCE NICs with DCB, SR-IOV and RDMA devices, for tests");
