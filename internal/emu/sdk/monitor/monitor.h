// The records of libdcmi that the program reads, as its public header lays them out.
#ifndef MONITOR_H
#define MONITOR_H

struct chip {
	char kind[32], name[32], version[32];
	unsigned cores;
	char npu[32];
};

struct memory {
	unsigned long long size;
	unsigned frequency;
	unsigned long long used;
	int celsius;
	unsigned bandwidth;
};

struct process {
	int id;
	unsigned long bytes;
};

struct filter {
	unsigned long long flags;
	unsigned id;
	unsigned char severity, node_type, reserved[32];
};

struct event {
	int type;
	long long : 0;
	unsigned id;
	unsigned short device;
	unsigned char node_type, node, sub_node_type, sub_node, severity, assertion;
	int serial, notice;
	unsigned long long raised;
	char name[256], more[32];
	unsigned char reserved[32];
};

void monitor_event(struct event *e);

#endif
