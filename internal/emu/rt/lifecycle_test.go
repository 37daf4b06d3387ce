package rt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestInitAndFinalize(t *testing.T) {
	r := rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 20, SoC: "Ascend910B1"})
	p := &process{rttest.Of(t, r), t}
	th := new(rt.Thread)
	p.Must(th, "aclFinalize") // succeeds once even without aclInit
	require.Equal(t, int32(100037), p.Call(th, "aclFinalize"))
	p.Must(th, "aclInit", 0)
	require.Equal(t, int32(100002), p.Call(th, "aclInit", 0))
	require.Empty(t, rttest.Text(th), "a repeated aclInit leaves no text, which would head the next error")
	left := new(uint64)
	p.Must(th, "aclFinalizeReference", rttest.Address(left))
	require.Equal(t, uint64(1), *left)
	p.Must(th, "aclFinalize")
	require.Equal(t, int32(100037), p.Call(th, "aclFinalize"))
	require.Equal(t, int32(100037), p.Call(th, "aclFinalizeReference", 0))
	p.Must(th, "aclInit", 0)
	p.Must(th, "aclFinalize")
}

// TestInitOnce: an older version cannot be initialised again after its end, and returns the error as if it
// were initialised.
func TestInitOnce(t *testing.T) {
	p := &process{rttest.Of(t, rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 20, SoC: "Ascend910B1", API: "8.1.RC1"})), t}
	th := new(rt.Thread)
	p.Must(th, "aclInit", 0)
	p.Must(th, "aclFinalize")
	require.Equal(t, int32(100002), p.Call(th, "aclInit", 0))
	require.Equal(t, int32(100037), p.Call(th, "aclFinalize"), "it is not initialised")
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
		r := rt.NewMachine(rt.Config{Devices: 2, Memory: 1 << 20, SoC: "Ascend910B1"})
		p := &process{rttest.Of(t, r), t}
		th := new(rt.Thread)
		path := filepath.Join(t.TempDir(), "acl.json")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		require.Equal(t, c.code, p.Call(th, "aclInit", rt.NewCString(path)), "%s: %s", c.text, rttest.Text(th))
		if strings.Contains(c.text, `"1"}}`) {
			require.Equal(t, uint64(1), p.Out(th, "aclrtGetDevice", 0), "the default device")
		}
		if c.code == 0 {
			p.Must(th, "aclFinalize")
			other := filepath.Join(t.TempDir(), "other.json")
			require.NoError(t, os.WriteFile(other, []byte(`{"a":1}`), 0o600))
			require.Equal(t, int32(100000), p.Call(th, "aclInit", rt.NewCString(other)), "another configuration")
		}
	}
	p := newProcess(t)
	require.Equal(t, int32(100003), p.Call(new(rt.Thread), "aclInit", rt.NewCString("/no/such/file")))
}

func TestVisibleDevices(t *testing.T) {
	for list, want := range map[string]int32{"0,2": 2, "1": 1, "": 0, "0,x,1": 1, "3,9": 1, "-1": 0} {
		t.Setenv("ASCEND_RT_VISIBLE_DEVICES", list)
		r := rt.NewMachine(rt.Config{Devices: 4, Memory: 1 << 20, SoC: "Ascend910B1"})
		f, th, n := r.Functions(), new(rt.Thread), new(uint64)
		code := int32(f["aclrtGetDeviceCount"](th, []uint64{rttest.Address(n)}))
		if want == 0 {
			require.Equal(t, int32(207004), code, "%q", list)
			continue
		}
		require.Zero(t, code)
		require.Equal(t, want, int32(*n), "%q", list)
	}
	t.Setenv("ASCEND_RT_VISIBLE_DEVICES", "2,1")
	r := rt.NewMachine(rt.Config{Devices: 4, Memory: 1 << 20, SoC: "Ascend910B1"})
	th := new(rt.Thread)
	require.NotZero(t, r.Functions()["aclrtSetDevice"](th, []uint64{0}))
	require.Contains(t, rttest.Text(th), "EE2002")
}

func TestConfigFromEnv(t *testing.T) {
	t.Setenv("CANN_EMU_DEVICES", "3")
	t.Setenv("CANN_EMU_MEMORY", "2G")
	t.Setenv("CANN_EMU_SOC", "Ascend910_9391")
	c, err := rt.ConfigFromEnv()
	require.NoError(t, err)
	require.Equal(t, rt.Config{Devices: 3, Memory: 2 << 30, SoC: "Ascend910_9391"}, c)
	t.Run("default memory", func(t *testing.T) {
		t.Setenv("CANN_EMU_MEMORY", "")
		c, err := rt.ConfigFromEnv()
		require.NoError(t, err)
		require.Zero(t, c.Memory%pageUnit, "whole huge pages, so that a program can reserve and map what is free")
	})
	for name, bad := range map[string]string{"CANN_EMU_DEVICES": "x", "CANN_EMU_MEMORY": "12Q", "CANN_EMU_SOC": "Ascend1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, bad)
			_, err := rt.ConfigFromEnv()
			require.ErrorContains(t, err, name)
			th := new(rt.Thread)
			require.NotZero(t, rt.New().Functions()["aclrtSetDevice"](th, []uint64{0}))
			require.Contains(t, rttest.Text(th), name)
		})
	}
	t.Run("many devices", func(t *testing.T) {
		for _, n := range []string{"65", "-1", "9223372036854775808"} {
			t.Setenv("CANN_EMU_DEVICES", n)
			c, err := rt.ConfigFromEnv()
			require.ErrorContains(t, err, "from 0 to 64")
			require.Equal(t, 8, c.Devices, "the machine is made in spite of the error")
		}
	})
}

func TestResetDeviceCounts(t *testing.T) {
	p := newProcess(t)
	a, b := p.Thread(2), p.Thread(2)
	require.Equal(t, a.Context, b.Context, "threads share the primary context")
	p.Must(a, "aclrtResetDevice", 2)
	require.Equal(t, uint64(2), p.Out(b, "aclrtGetDevice", 0), "one reference is left")
	p.Must(a, "aclrtResetDevice", 2)
	word := new(uint64)
	require.Equal(t, int32(107002), p.Call(b, "aclrtGetDevice", rttest.Address(word)))
	require.Equal(t, int32(507007), p.Call(a, "aclrtResetDevice", 2))
	c := p.Thread(2)
	require.NotEqual(t, a.Context, c.Context)
	p.Thread(2)
	p.Must(c, "aclrtResetDeviceForce", 2)
	require.Equal(t, int32(507007), p.Call(c, "aclrtResetDevice", 2))
}
