package rt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInitAndFinalize(t *testing.T) {
	r := NewMachine(Config{Devices: 1, Memory: 1 << 20, SoC: "Ascend910B1"})
	p := &process{tb: t, r: r, f: r.Functions()}
	th := new(Thread)
	p.must(th, "aclFinalize") // without any init it succeeds, once
	require.Equal(t, int32(100037), p.call(th, "aclFinalize"))
	p.must(th, "aclInit", 0)
	require.Equal(t, int32(100002), p.call(th, "aclInit", 0))
	left := new(uint64)
	p.must(th, "aclFinalizeReference", address(left))
	require.Equal(t, uint64(1), *left)
	p.must(th, "aclFinalize")
	require.Equal(t, int32(100037), p.call(th, "aclFinalize"))
	require.Equal(t, int32(100037), p.call(th, "aclFinalizeReference", 0))
	p.must(th, "aclInit", 0)
	p.must(th, "aclFinalize")
}

func TestInitConfiguration(t *testing.T) {
	for _, c := range []struct {
		text string
		code int32
	}{
		{"", 0}, {"{}", 0}, {`{"err_msg_mode":"1","unknown":[1]}`, 0}, {`{"defaultDevice":{"default_device":"1"}}`, 0},
		{"{", 100006}, {strings.Repeat("[", 11) + strings.Repeat("]", 11), 100006},
		{`{"defaultDevice":{"default_device":"x"}}`, 100000}, {`{"a":"` + strings.Repeat("[", 20) + `"}`, 0},
	} {
		r := NewMachine(Config{Devices: 2, Memory: 1 << 20, SoC: "Ascend910B1"})
		p := &process{tb: t, r: r, f: r.Functions()}
		th := new(Thread)
		path := filepath.Join(t.TempDir(), "acl.json")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		require.Equal(t, c.code, p.call(th, "aclInit", NewCString(path)), "%s: %s", c.text, takeText(th))
		if strings.Contains(c.text, `"1"}}`) {
			require.Equal(t, uint64(1), p.out(th, "aclrtGetDevice", 0), "the default device")
		}
		if c.code == 0 {
			p.must(th, "aclFinalize")
			other := filepath.Join(t.TempDir(), "other.json")
			require.NoError(t, os.WriteFile(other, []byte(`{"a":1}`), 0o600))
			require.Equal(t, int32(100000), p.call(th, "aclInit", NewCString(other)), "another configuration")
		}
	}
	p := newProcess(t)
	require.Equal(t, int32(100003), p.call(new(Thread), "aclInit", NewCString("/no/such/file")))
}

func TestVisibleDevices(t *testing.T) {
	for list, want := range map[string]int32{"0,2": 2, "1": 1, "": 0, "0,x,1": 1, "3,9": 1, "-1": 0} {
		t.Setenv("ASCEND_RT_VISIBLE_DEVICES", list)
		r := NewMachine(Config{Devices: 4, Memory: 1 << 20, SoC: "Ascend910B1"})
		f, th, n := r.Functions(), new(Thread), new(uint64)
		code := int32(f["aclrtGetDeviceCount"](th, []uint64{address(n)}))
		if want == 0 {
			require.Equal(t, int32(207004), code, "%q", list)
			continue
		}
		require.Zero(t, code)
		require.Equal(t, want, int32(*n), "%q", list)
	}
	t.Setenv("ASCEND_RT_VISIBLE_DEVICES", "2,1")
	r := NewMachine(Config{Devices: 4, Memory: 1 << 20, SoC: "Ascend910B1"})
	th := new(Thread)
	require.NotZero(t, r.Functions()["aclrtSetDevice"](th, []uint64{0}))
	require.Contains(t, takeText(th), "EE2002")
}

func TestConfigFromEnv(t *testing.T) {
	t.Setenv("CANN_EMU_DEVICES", "3")
	t.Setenv("CANN_EMU_MEMORY", "2G")
	t.Setenv("CANN_EMU_SOC", "Ascend910_9391")
	c, err := ConfigFromEnv()
	require.NoError(t, err)
	require.Equal(t, Config{Devices: 3, Memory: 2 << 30, SoC: "Ascend910_9391"}, c)
	for name, bad := range map[string]string{"CANN_EMU_DEVICES": "x", "CANN_EMU_MEMORY": "12Q", "CANN_EMU_SOC": "Ascend1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, bad)
			_, err := ConfigFromEnv()
			require.ErrorContains(t, err, name)
			th := new(Thread)
			require.NotZero(t, New().Functions()["aclrtSetDevice"](th, []uint64{0}))
			require.Contains(t, takeText(th), name)
		})
	}
}

func TestResetDeviceCounts(t *testing.T) {
	p := newProcess(t)
	a, b := p.thread(2), p.thread(2)
	require.Equal(t, a.Context, b.Context, "threads share the primary context")
	p.must(a, "aclrtResetDevice", 2)
	require.Equal(t, uint64(2), p.out(b, "aclrtGetDevice", 0), "one reference is left")
	p.must(a, "aclrtResetDevice", 2)
	word := new(uint64)
	require.Equal(t, int32(107002), p.call(b, "aclrtGetDevice", address(word)))
	require.Equal(t, int32(507007), p.call(a, "aclrtResetDevice", 2))
	c := p.thread(2)
	require.NotEqual(t, a.Context, c.Context)
	p.thread(2)
	p.must(c, "aclrtResetDeviceForce", 2)
	require.Equal(t, int32(507007), p.call(c, "aclrtResetDevice", 2))
}
