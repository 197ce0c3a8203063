// SPDX-License-Identifier: GPL-2.0
/* The ib_device of a function. It carries no traffic, so queues are refused; all around it is the RDMA core's doing. */
#include <linux/if_link.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include "simroce.h"

#define GIDS		32
#define PKEY_DEFAULT	0xffff

struct sim_rdma {
	struct ib_device ib;
	struct sim *s;
};

/* Objects as the core allocates them. */
struct sim_context { struct ib_ucontext context; };
struct sim_pd { struct ib_pd pd; };
struct sim_cq { struct ib_cq cq; };
struct sim_qp { struct ib_qp qp; };

static struct sim *sim_of(struct ib_device *ib)
{
	return container_of(ib, struct sim_rdma, ib)->s;
}

static struct sim *port_of(struct ib_device *ib, u32 port)
{
	return port == 2 ? sim_of(ib)->second : sim_of(ib);
}

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = ib->node_guid;
	attr->vendor_id = 0x15b3;
	attr->fw_ver = 22ULL << 32 | 41 << 16 | sim_of(ib)->firmware;
	attr->max_qp = attr->max_cq = attr->max_pd = attr->max_mr = attr->max_pkeys = 1;
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct net_device *dev = port_of(ib, port)->dev;
	bool up = netif_running(dev) && netif_carrier_ok(dev);

	memset(attr, 0, sizeof(*attr));
	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = iboe_get_mtu(dev->mtu) ?: IB_MTU_256;
	attr->gid_tbl_len = GIDS;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = 1U << 30;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_NDR;
	return 0;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	*pkey = PKEY_DEFAULT;
	return 0;
}

static int port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	immutable->pkey_tbl_len = 1;
	immutable->gid_tbl_len = GIDS;
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_ROCE | RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP |
				    RDMA_CORE_CAP_IB_CM | RDMA_CORE_CAP_ETH_AH;	/* CM: rdma_cm's configfs wants it */
	return 0;
}

static enum rdma_link_layer link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static void fw_string(struct ib_device *ib, char *text)
{
	snprintf(text, IB_FW_VERSION_NAME_MAX, "22.41.%04u", sim_of(ib)->firmware);
}

static int add_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return 0;
}

static void dealloc_ucontext(struct ib_ucontext *context)
{
}

/* Having this is what lets the core move the device between network namespaces. */
static void disassociate_ucontext(struct ib_ucontext *context)
{
}

/* A device without these is no "kernel verbs provider", and rdma_cm (default_roce_tos) would not look at it. */
static int alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs)
{
	return -EOPNOTSUPP;
}

static int destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	return 0;
}

static int poll_cq(struct ib_cq *cq, int entries, struct ib_wc *wc)
{
	return 0;
}

static int req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return 0;
}

static int create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static int modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static int destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	return 0;
}

static int post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	return -EOPNOTSUPP;
}

static int post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	return -EOPNOTSUPP;
}

static struct ib_mr *get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 address, int access,
				 struct ib_dmah *dmah, struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	return 0;
}

static struct rdma_hw_stats *alloc_stats(struct ib_device *ib, u32 port)
{
	return rdma_alloc_hw_stats_struct(sim_rdma_counters, N_RDMA, RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static int get_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct sim *s;
	int i;

	if (!port)
		return -EOPNOTSUPP;
	s = port_of(ib, port);
	for (i = 0; i < N_RDMA; i++)
		stats->value[i] = atomic64_read(&s->counters[FIRST_RDMA + i]);
	return N_RDMA;
}

static const struct ib_device_ops device_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,
	.query_device = query_device,
	.query_port = query_port,
	.query_pkey = query_pkey,
	.get_port_immutable = port_immutable,
	.get_link_layer = link_layer,
	.get_dev_fw_str = fw_string,
	.add_gid = add_gid,
	.del_gid = del_gid,
	.alloc_ucontext = alloc_ucontext,
	.dealloc_ucontext = dealloc_ucontext,
	.disassociate_ucontext = disassociate_ucontext,
	.alloc_hw_port_stats = alloc_stats,
	.get_hw_stats = get_stats,
	.alloc_pd = alloc_pd, .dealloc_pd = dealloc_pd,
	.create_cq = create_cq, .destroy_cq = destroy_cq, .poll_cq = poll_cq, .req_notify_cq = req_notify_cq,
	.create_qp = create_qp, .modify_qp = modify_qp, .destroy_qp = destroy_qp,
	.post_send = post_send, .post_recv = post_recv,
	.get_dma_mr = get_dma_mr, .reg_user_mr = reg_user_mr, .dereg_mr = dereg_mr,
	INIT_RDMA_OBJ_SIZE(ib_ucontext, sim_context, context),
	INIT_RDMA_OBJ_SIZE(ib_pd, sim_pd, pd),
	INIT_RDMA_OBJ_SIZE(ib_cq, sim_cq, cq),
	INIT_RDMA_OBJ_SIZE(ib_qp, sim_qp, qp),
};

/* From the MAC. A VF of mlx5 has none until the PF's administrator gives it a MAC and it is bound again. */
static void set_guid(struct sim *s, struct ib_device *ib)
{
	if (s->pf && s->like == LIKE_MLX5 && !is_valid_ether_addr(s->pf->vfs[s->vf].mac))
		ib->node_guid = 0;
	else
		addrconf_addr_eui48((u8 *)&ib->node_guid, s->dev->dev_addr);
}

static int register_named(struct sim *s, struct ib_device *ib)
{
	char name[IB_DEVICE_NAME_MAX];
	int err;

	if (s->pf)
		snprintf(name, sizeof(name), "simib%dv%d", s->card, s->vf);
	else
		snprintf(name, sizeof(name), "simib%d", s->card);
	err = ib_register_device(ib, name, NULL);
	return err == -ENFILE ? ib_register_device(ib, "simibx%d", NULL) : err;	/* somebody was renamed to it */
}

int sim_rdma_add(struct sim *s)
{
	struct sim_rdma *rdma = ib_alloc_device(sim_rdma, ib);
	int err;

	if (!rdma)
		return -ENOMEM;
	rdma->s = s;
	rdma->ib.node_type = RDMA_NODE_IB_CA;
	rdma->ib.phys_port_cnt = s->second ? 2 : 1;
	rdma->ib.num_comp_vectors = 1;
	rdma->ib.dev.parent = &s->pdev->dev;
	set_guid(s, &rdma->ib);
	ib_set_device_ops(&rdma->ib, &device_ops);
	err = ib_device_set_netdev(&rdma->ib, s->dev, 1);
	if (!err && s->second)
		err = ib_device_set_netdev(&rdma->ib, s->second->dev, 2);
	if (!err)
		err = register_named(s, &rdma->ib);
	if (err) {
		ib_dealloc_device(&rdma->ib);
		return err;
	}
	s->rdma = rdma;
	return 0;
}

void sim_rdma_del(struct sim *s)
{
	if (!s->rdma)
		return;
	ib_unregister_device(&s->rdma->ib);
	ib_dealloc_device(&s->rdma->ib);
	s->rdma = NULL;
}
