package world

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNodeFrom(t *testing.T) {
	pytorch := torchrun("1", "16", "LOCAL_RANK", "0,1,2,3,4,5,6,7", "LOCAL_WORLD_SIZE", "8")
	mindspore := map[string]string{"MS_NODE_RANK": "0", "MS_WORKER_NUM": "8", "MS_LOCAL_WORKER": "8", "MS_SCHED_HOST": "10.1.1.1", "MS_SCHED_PORT": "2222"}
	tensorflow := map[string]string{"CM_RANK": "3", "CM_WORKER_SIZE": "32", "CM_LOCAL_WORKER": "8", "CM_CHIEF_IP": "10.1.1.1", "CM_CHIEF_PORT": "2222"}
	for _, c := range []struct {
		vars map[string]string
		want Node
	}{
		{pytorch, Node{Rank: 1, Count: 2, Local: 8, Address: "10.0.0.5:29511", Launcher: "ascend-operator (PyTorch)"}},
		{mindspore, Node{Rank: 0, Count: 1, Local: 8, Address: "10.1.1.1:2222", Launcher: "ascend-operator (MindSpore)"}},
		{tensorflow, Node{Rank: 3, Count: 4, Local: 8, Address: "10.1.1.1:2222", Launcher: "ascend-operator (TensorFlow)"}},
	} {
		n, err := NodeFrom(lookup(c.vars))
		require.NoError(t, err)
		assert.Equal(t, c.want, n)
		_, err = DetectFrom(lookup(c.vars))
		require.ErrorIs(t, err, ErrEnvironment, "a pod is no rank")
		require.ErrorContains(t, err, "examples/launch")
	}
	for _, vars := range []map[string]string{nil, torchrun("0", "2"), slurm} {
		_, err := NodeFrom(lookup(vars))
		require.ErrorIs(t, err, ErrNoLauncher)
	}
	for _, c := range []struct {
		vars map[string]string
		text string
	}{
		{with(pytorch, "LOCAL_WORLD_SIZE", ""), "without LOCAL_WORLD_SIZE"},
		{with(pytorch, "LOCAL_WORLD_SIZE", "5"), "pod 1 with 5 of 16"},
		{with(pytorch, "RANK", "2"), "pod 2 with 8 of 16"},
		{with(mindspore, "MS_LOCAL_WORKER", "0"), "impossible"},
		{with(mindspore, "MS_SCHED_PORT", "http"), "not a count"},
	} {
		_, err := NodeFrom(lookup(c.vars))
		require.ErrorIs(t, err, ErrEnvironment)
		assert.ErrorContains(t, err, c.text)
	}
}
