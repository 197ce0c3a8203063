// SPDX-License-Identifier: GPL-2.0
/* debugfs: what tests may turn (simroce/DEV/) and what mlx5 itself shows there (mlx5/ADDRESS/cc_params/). */
#include <linux/debugfs.h>
#include <linux/uaccess.h>
#include "simroce.h"

static struct dentry *root, *mlx5;

/* In the order of the driver's own list; values are the firmware's defaults. */
static const struct { const char *name; u32 value; } cc_defaults[] = {
	{ "rp_clamp_tgt_rate", 0 }, { "rp_clamp_tgt_rate_ati", 1 }, { "rp_time_reset", 300 }, { "rp_byte_reset", 32767 },
	{ "rp_threshold", 1 }, { "rp_ai_rate", 5 }, { "rp_max_rate", 0 }, { "rp_hai_rate", 50 }, { "rp_min_dec_fac", 50 },
	{ "rp_min_rate", 1 }, { "rp_rate_to_set_on_first_cnp", 0 }, { "rp_dce_tcp_g", 1019 }, { "rp_dce_tcp_rtt", 1 },
	{ "rp_rate_reduce_monitor_period", 4 }, { "rp_initial_alpha_value", 1023 }, { "rp_gd", 11 },
	{ "np_min_time_between_cnps", 4 }, { "np_cnp_dscp", 48 }, { "np_cnp_prio_mode", 0 }, { "np_cnp_prio", 6 },
};
static u32 cc_values[SIM_CARDS][ARRAY_SIZE(cc_defaults)];

/* "NAME VALUE" sets a counter, whoever shows it. */
static ssize_t counters_write(struct file *file, const char __user *from, size_t length, loff_t *offset)
{
	struct sim *s = file->private_data;
	char line[80], name[40], known[ETH_GSTRING_LEN];
	u64 value;
	int i;

	if (length >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, length))
		return -EFAULT;
	line[length] = 0;
	if (sscanf(line, "%39s %llu", name, &value) != 2)
		return -EINVAL;
	for (i = 0; i < N_COUNTERS; i++) {
		sim_counter_name(s, i, known);
		if (!strcmp(name, known)) {
			atomic64_set(&s->counters[i], value);
			return length;
		}
	}
	return -ENOENT;
}

static const struct file_operations counters_ops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = counters_write,
};

static int carrier_get(void *data, u64 *value)
{
	*value = netif_carrier_ok(((struct sim *)data)->dev);
	return 0;
}

/* Pulling and plugging the cable. */
static int carrier_set(void *data, u64 value)
{
	struct sim *s = data;

	if (value)
		netif_carrier_on(s->dev);
	else
		netif_carrier_off(s->dev);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(carrier_ops, carrier_get, carrier_set, "%llu\n");

static void add_cc_params(struct sim *s)
{
	struct dentry *folder;
	int i;

	s->cc = debugfs_create_dir(pci_name(s->pdev), mlx5);
	folder = debugfs_create_dir("cc_params", s->cc);
	for (i = 0; i < ARRAY_SIZE(cc_defaults); i++) {
		cc_values[s->card][i] = cc_defaults[i].value;
		debugfs_create_u32(cc_defaults[i].name, 0600, folder, &cc_values[s->card][i]);
	}
}

void sim_knobs_add(struct sim *s)
{
	char name[16];

	if (s->pf)
		snprintf(name, sizeof(name), "sim%dv%d", s->card, s->vf);
	else if (s->dev->dev_port)
		snprintf(name, sizeof(name), "sim%dd%d", s->card, s->dev->dev_port);
	else
		snprintf(name, sizeof(name), "sim%d", s->card);
	s->debug = debugfs_create_dir(name, root);
	debugfs_create_u32("fail", 0600, s->debug, &s->fail);
	debugfs_create_u32("flaps", 0400, s->debug, &s->flaps);
	debugfs_create_u32("trust_dscp", 0400, s->debug, &s->trust_dscp);
	debugfs_create_u32("speed", 0600, s->debug, &s->speed);
	debugfs_create_u32("firmware", 0600, s->debug, &s->firmware);
	debugfs_create_u32("strict_buffers", 0600, s->debug, &s->strict_buffers);
	debugfs_create_file("counters", 0200, s->debug, s, &counters_ops);
	debugfs_create_file_unsafe("carrier", 0600, s->debug, s, &carrier_ops);
	if (s->like == LIKE_MLX5 && !s->pf && !s->dev->dev_port)
		add_cc_params(s);
}

void sim_knobs_del(struct sim *s)
{
	debugfs_remove_recursive(s->debug);
	debugfs_remove_recursive(s->cc);
}

void sim_knobs_init(void)
{
	root = debugfs_create_dir("simroce", NULL);
	mlx5 = debugfs_create_dir("mlx5", NULL);
}

void sim_knobs_exit(void)
{
	debugfs_remove_recursive(root);
	debugfs_remove_recursive(mlx5);
}
