package world

import (
	"strings"
)

// Node describes one host of a job whose ranks have yet to be started.
type Node struct {
	Rank, Count int    // number of this host, and number of hosts
	Local       int    // number of ranks to start on each host
	Address     string // where rank 0 will listen: host:port
	Launcher    string
}

// podForms lists the variables by which the ascend-operator of mind-cluster describes a pod, per
// framework. The number of the pod is in the variable that elsewhere holds the rank.
var podForms = []struct {
	framework                                  string
	node, ranks, local, masterHost, masterPort string
}{
	{"PyTorch", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
	{"MindSpore", "MS_NODE_RANK", "MS_WORKER_NUM", "MS_LOCAL_WORKER", "MS_SCHED_HOST", "MS_SCHED_PORT"},
	{"TensorFlow", "CM_RANK", "CM_WORKER_SIZE", "CM_LOCAL_WORKER", "CM_CHIEF_IP", "CM_CHIEF_PORT"},
}

// NodeFrom reads the variables that the ascend-operator sets in a pod. lookup is os.LookupEnv or a
// substitute. Variables of a single rank, such as torchrun's, do not describe a pod: then the error
// is ErrNoLauncher, as when nothing is set.
func NodeFrom(lookup func(string) (string, bool)) (Node, error) {
	if lookup == nil {
		return Node{}, &EnvError{Err: ErrEnvironment, Detail: "lookup is nil; pass os.LookupEnv"}
	}
	env := &environment{lookup: lookup}
	for _, form := range podForms {
		if !env.set(form.node) {
			continue
		}
		// Only the operator sets LOCAL_RANK to a list.
		if form.framework == "PyTorch" && !strings.Contains(env.text("LOCAL_RANK"), ",") {
			continue
		}
		env.launcher = "ascend-operator (" + form.framework + ")"
		var missing []string
		for _, name := range []string{form.ranks, form.local, form.masterHost, form.masterPort} {
			if !env.set(name) {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			env.refuse([]string{form.node}, "without %s", strings.Join(missing, " and "))
			return Node{}, env.err
		}
		ranks := env.number(form.ranks)
		n := Node{Rank: env.number(form.node), Local: env.number(form.local), Launcher: env.launcher}
		n.Address = hostPort(env.text(form.masterHost), env.number(form.masterPort))
		if env.err == nil && (n.Local < 1 || ranks%n.Local != 0 || n.Rank >= ranks/n.Local) {
			env.refuse([]string{form.node, form.ranks, form.local}, "pod %d with %d of %d ranks is impossible", n.Rank, n.Local, ranks)
		}
		if env.err != nil {
			return Node{}, env.err
		}
		n.Count = ranks / n.Local
		return n, nil
	}
	return Node{}, &EnvError{Err: ErrNoLauncher, Detail: "no variables of a pod"}
}
