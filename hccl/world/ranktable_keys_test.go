package world

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryKey changes each key of a rank table to another value: the table that a program gets is another, or the key is refused by
// its name, and so is one that nobody knows.
func TestEveryKey(t *testing.T) {
	read := func(text string) string {
		table, err := parseRankTable("", []byte(text))
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%+v", *table)
	}
	two := strings.Replace(strings.Replace(twoServers, `"rank_id": "0"`, `"host_port": "60000", "rank_id": "0"`, 1), `"10.7.0.11", "host_ip"`, `"10.7.0.11", "container_ip": "10.8.0.1", "hardware_type": "x", "host_ip"`, 1)
	changes := []struct{ key, table, old, other string }{
		{"version", superPod, `"1.2"`, `"1.0"`}, {"status", two, `"completed"`, `"initializing"`}, {"server_count", two, `"server_count": "2"`, `"server_count": "1"`},
		{"server_list", superPod, `[{"server_id": "a"}, {"server_id": "b"}]`, `[{"server_id": "b"}, {"server_id": "a"}]`},
		{"super_pod_list", superPod, `{"super_pod_id": "pod0", "server_list": [{"server_id": "a"}, {"server_id": "b"}]}`, `{"super_pod_id": "pod0", "server_list": [{"server_id": "a"}]}, {"super_pod_id": "pod1", "server_list": [{"server_id": "b"}]}`}, {"super_pod_id", superPod, `"pod0"`, `"pod1"`},
		{"server_id", two, `"10.7.0.12"`, `"10.7.0.13"`}, {"host_ip", two, `"10.7.0.111"`, `"10.7.0.112"`}, {"container_ip", two, `"10.8.0.1"`, `"10.8.0.2"`}, {"hardware_type", two, `"x"`, `"y"`},
		{"device", two, `{"device_id": "5", "device_ip": "172.20.1.2,172.20.2.2", "rank_id": "1"}`, `{"device_id": "6", "device_ip": "172.20.1.2,172.20.2.2", "rank_id": "1"}`},
		{"device_id", two, `"device_id": "5"`, `"device_id": "6"`}, {"rank_id", two, `"rank_id": "3"`, `"rank_id": "4"`}, {"device_ip", two, `"172.20.1.4"`, `"172.20.1.5"`},
		{"device_port", two, `"16700"`, `"16701"`}, {"host_port", two, `"60000"`, `"60001"`}, {"super_device_id", superPod, `"super_device_id": "1"`, `"super_device_id": "2"`},
		{"backup_device_ip", superPod, `"172.20.3.1"`, `"172.20.3.2"`}, {"backup_device_port", superPod, `"17000"`, `"17001"`},
	}
	var tested []string
	for _, c := range changes {
		tested = append(tested, c.key)
		require.Contains(t, c.table, c.old, c.key)
		require.NotEqual(t, read(c.table), read(strings.Replace(c.table, c.old, c.other, 1)), c.key)
	}
	for _, list := range []keys{tableKeys, serverKeys, deviceKeys, podKeys, memberKeys} {
		for _, key := range slices.Concat(list.required, list.optional) {
			require.Contains(t, tested, key)
		}
	}
	for _, before := range []string{`"version"`, `"server_id": "a"`, `"device_id"`, `"super_pod_id"`, `"server_id": "b"}]`} {
		require.Contains(t, superPod, before)
		require.Contains(t, read(strings.Replace(superPod, before, `"nobody_knows": "1", `+before, 1)), "nobody_knows")
	}
}
