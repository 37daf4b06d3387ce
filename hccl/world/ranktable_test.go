package world

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoServers is a table of version 1.0 that lists the second server first.
const twoServers = `{"version": "1.0", "status": "completed", "server_count": "2",
 "server_list": [
  {"server_id": "10.7.0.12", "device": [
   {"device_id": "1", "device_ip": "172.20.1.4", "rank_id": "3"},
   {"device_id": "0", "device_ip": "172.20.1.3", "rank_id": "2"}]},
  {"server_id": "10.7.0.11", "host_ip": "10.7.0.111", "device": [
   {"device_id": "4", "device_ip": "172.20.1.1", "device_port": "16700", "rank_id": "0"},
   {"device_id": "5", "device_ip": "172.20.1.2,172.20.2.2", "rank_id": "1"}]}]}`

// superPod is a table of version 1.2.
const superPod = `{
  "version": "1.2",
  "status": "completed",
  "server_list": [
    {"server_id": "a", "container_ip": "10.0.0.1", "hardware_type": "800I-A3", "device": [
      {"device_id": "0", "rank_id": "0", "device_ip": "172.20.1.1", "super_device_id": "0", "backup_device_ip": "172.20.3.1", "backup_device_port": "17000"}]},
    {"server_id": "b", "device": [
      {"device_id": "0", "rank_id": "1", "device_ip": "fe80::7", "super_device_id": "1", "host_port": "60100"}]}
  ],
  "super_pod_list": [
    {"super_pod_id": "pod0", "server_list": [{"server_id": "a"}, {"server_id": "b"}]}
  ]
}`

func TestRankTable(t *testing.T) {
	table, err := ParseRankTable([]byte(twoServers))
	require.NoError(t, err)
	want := []RankServer{
		{ID: "10.7.0.11", HostIP: netip.MustParseAddr("10.7.0.111"), Devices: []RankDevice{
			{ID: 4, Rank: 0, IP: addrs("172.20.1.1"), Port: 16700},
			{ID: 5, Rank: 1, IP: addrs("172.20.1.2", "172.20.2.2")},
		}},
		{ID: "10.7.0.12", Devices: []RankDevice{
			{ID: 0, Rank: 2, IP: addrs("172.20.1.3")},
			{ID: 1, Rank: 3, IP: addrs("172.20.1.4")},
		}},
	}
	if diff := cmp.Diff(want, table.Servers, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	assert.Equal(t, 4, table.Size())
	s, d, ok := table.Device(3)
	require.True(t, ok)
	assert.Equal(t, "10.7.0.12", s.ID)
	assert.Equal(t, 1, d.ID)
	for _, rank := range []int{-1, 4} {
		_, _, ok = table.Device(rank)
		assert.False(t, ok, rank)
	}

	table, err = ParseRankTable([]byte(superPod))
	require.NoError(t, err)
	assert.Equal(t, []SuperPod{{ID: "pod0", Servers: []string{"a", "b"}}}, table.SuperPods)
	assert.Equal(t, "1", table.Servers[1].Devices[0].SuperDeviceID)
	assert.Equal(t, 17000, table.Servers[0].Devices[0].BackupPort)
	assert.Equal(t, "10.0.0.1", table.Servers[0].host())
	assert.Equal(t, "b", table.Servers[1].host())
}

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// Each case changes one thing in a valid table; the error must point to its position.
func TestRankTableFaults(t *testing.T) {
	for _, c := range []struct {
		name, table, old, new string
		at                    string // the text around the place, which ‸ stands for
		field, detail         string
	}{
		{"not JSON", twoServers, `"1.0",`, `"1.0"`, `"1.0" ‸"status"`, "", "invalid character"},
		{"cut", twoServers, `}]}]}`, `}]}]`, `"rank_id": "1"}]}]‸`, "", "ends too early"},
		{"text after", twoServers, `}]}]}`, `}]}]} {}`, `}]}]} ‸{}`, "", "after the end"},
		{"number instead of string", twoServers, `"rank_id": "3"`, `"rank_id": 3`, `"rank_id": ‸3`, "server_list[0].device[0].rank_id", "the number 3 where a string is due"},
		{"unknown key", twoServers, `"host_ip"`, `"hostip"`, `"hostip": ‸`, "server_list[1].hostip", "no such key"},
		{"repeated key", twoServers, `"host_ip": "10.7.0.111"`, `"server_id": "x"`, `"10.7.0.11", ‸"server_id"`, "server_list[1].server_id", "given twice"},
		{"missing key", twoServers, `"rank_id": "3"`, `"host_port": "3"`, `‸{"device_id": "1", "device_ip": "172.20.1.4"`, "server_list[0].device[0]", "rank_id is missing"},
		{"wrong server_count", twoServers, `"server_count": "2"`, `"server_count": "3"`, `"server_count": ‸`, "server_count", "3 servers are announced, 2 are listed"},
		{"rank twice", twoServers, `"rank_id": "3"`, `"rank_id": "2"`, `"172.20.1.3", "rank_id": ‸`, "server_list[0].device[1].rank_id", "rank 2 is server_list[0].device[0].rank_id already"},
		{"gap", twoServers, `"rank_id": "3"`, `"rank_id": "7"`, `"172.20.1.4", "rank_id": ‸`, "server_list[0].device[0].rank_id", "3 is missing"},
		{"interleaved", twoServers, "", "", `"172.20.1.2,172.20.2.2", "rank_id": ‸`, "server_list[1].device[1].rank_id", "follow one another"},
		{"device twice", twoServers, `"device_id": "5"`, `"device_id": "4"`, `{"device_id": ‸"4", "device_ip": "172.20.1.2`, "server_list[1].device[1].device_id", "has rank 0 already"},
		{"server twice", twoServers, `"10.7.0.11"`, `"10.7.0.12"`, `{"server_id": ‸"10.7.0.12", "host_ip"`, "server_list[1].server_id", "listed twice"},
		{"no address", twoServers, `"172.20.1.3"`, `"172.20.1"`, `‸"172.20.1",`, "server_list[0].device[1].device_ip", "not an IP address"},
		{"port", twoServers, `"16700"`, `"65536"`, `‸"65536"`, "server_list[1].device[0].device_port", "not a port"},
		{"version", twoServers, `"1.0"`, `"2.0"`, `‸"2.0"`, "version", "1.0 and 1.2"},
		{"status", twoServers, `"completed"`, `"done"`, `‸"done"`, "status", `"initializing"`},
		{"super-pod key in 1.0", twoServers, `"device_port": "16700"`, `"super_device_id": "1"`, `"super_device_id": ‸`, "server_list[1].device[0].super_device_id", "version 1.2"},
		{"no super_device_id", superPod, `, "super_device_id": "1"`, ``, `"rank_id": ‸"1"`, "server_list[1].device[0].rank_id", "no super_device_id"},
		{"empty super_device_id", superPod, `"super_device_id": "1"`, `"super_device_id": ""`, `"super_device_id": ‸""`, "server_list[1].device[0].super_device_id", "empty"},
		{"unknown server of a pod", superPod, `{"server_id": "b"}]`, `{"server_id": "c"}]`, `‸"c"`, "super_pod_list[0].server_list[1].server_id", "not in server_list"},
		{"server of no pod", superPod, `, {"server_id": "b"}]`, `]`, `"super_pod_list": ‸[`, "super_pod_list", `"b" is in no super-pod`},
		{"older template", twoServers, `"server_list"`, `"group_list"`, `"group_list": ‸`, "group_list", "older template"},
		{"list is no list", twoServers, `"host_ip": "10.7.0.111", "device": [`, `"device": {}, "x": [`, `"x": ‸[`, "server_list[1].x", "no such key"},
		{"several servers without device_ip", twoServers, `"device_ip": "172.20.1.3", `, ``, `‸{"device_id": "0", "rank_id": "2"`, "server_list[0].device[1]", "hccn.conf"},
		{"long server_id", twoServers, `"10.7.0.11"`, `"` + strings.Repeat("s", 65) + `"`, `‸"sss`, "server_list[1].server_id", "at most 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(c.table, c.old, c.new, 1)
			if c.name == "interleaved" {
				text = strings.NewReplacer(`"rank_id": "1"`, `"rank_id": "2"`, `"rank_id": "2"`, `"rank_id": "1"`).Replace(c.table)
			}
			before, after, marked := strings.Cut(c.at, "‸")
			require.True(t, marked)
			offset := strings.Index(text, before+after)
			require.GreaterOrEqual(t, offset, 0, "%q is not in the text", before+after)
			head := text[:offset+len(before)]
			place := fmt.Sprintf("%d:%d", 1+strings.Count(head, "\n"), len(head)-strings.LastIndex(head, "\n"))
			table, err := parseRankTable("t.json", []byte(text))
			require.ErrorIs(t, err, ErrRankTable, "%+v", table)
			var e *TableError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, place, fmt.Sprintf("%d:%d", e.Line, e.Column), "%v", err)
			assert.Equal(t, c.field, e.Field)
			assert.Contains(t, e.Detail, c.detail)
			assert.Contains(t, err.Error(), "t.json:"+place)
		})
	}
	_, err := parseRankTable("", []byte("{\"version\": \"1.0\",\n \"status\": \"\xff\"}"))
	require.ErrorContains(t, err, "2:13: malformed rank table: not UTF-8")
	_, err = parseRankTable("", []byte(strings.Repeat("[", 1000)))
	require.ErrorContains(t, err, "nested too deeply")
	_, err = parseRankTable("", []byte(`{"server_list":[`+strings.Repeat("[],", 3_300_000)+`[]]}`))
	require.ErrorContains(t, err, "server_list[599998]: more than 600000 values")
	var keys strings.Builder
	for i := range 33 {
		fmt.Fprintf(&keys, `"k%d":0,`, i)
	}
	_, err = parseRankTable("", []byte("{"+keys.String()))
	require.ErrorContains(t, err, "k32: more than 32 keys")
	_, err = ReadRankTable(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWaitRankTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hccl.json")
	write := func(s string) {
		// Replace the file by renaming, like a ConfigMap.
		require.NoError(t, os.WriteFile(path+".new", []byte(s), 0o644))
		require.NoError(t, os.Rename(path+".new", path))
	}
	brief, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := WaitRankTable(brief, path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	write(`{"version": "1.0", "status": "initializing", "server_count": "0", "server_list": []}`)
	_, err = ReadRankTable(path)
	require.ErrorIs(t, err, ErrTableInitializing)

	found := make(chan error, 1)
	go func() {
		table, err := WaitRankTable(context.Background(), path)
		if err == nil && table.Size() != 4 {
			err = fmt.Errorf("%d ranks", table.Size())
		}
		found <- err
	}()
	write(twoServers)
	require.NoError(t, <-found)

	write("{")
	_, err = WaitRankTable(context.Background(), path)
	require.ErrorIs(t, err, ErrRankTable)
}

func FuzzRankTable(f *testing.F) {
	for _, s := range []string{twoServers, superPod, "", "{}", "[]", `{"version":"1.0","status":"initializing"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := ParseRankTable(data)
		if err != nil {
			var e *TableError
			require.ErrorAs(t, err, &e)
			require.Positive(t, e.Line)
			require.Positive(t, e.Column)
			return
		}
		require.Positive(t, table.Size())
		total := 0
		for _, s := range table.Servers {
			for _, d := range s.Devices {
				require.Equal(t, total, d.Rank)
				total++
			}
		}
		require.Equal(t, table.Size(), total)
	})
}
