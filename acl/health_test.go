//go:build emu && linux && cgo

package acl_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// ail runs a test in a process whose devices have what the file of the returned function says.
func ail(t *testing.T, body func(t *testing.T, say func(text string)), variables ...string) {
	file := filepath.Join(t.TempDir(), "health")
	if name := os.Getenv("CANN_EMU_HEALTH"); name != "" {
		file = name
	}
	acltest.Rerun(t, func(t *testing.T) {
		body(t, func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) })
	}, append(variables, "CANN_EMU_HEALTH="+file)...)
}

// TestHealth: the driver reports the faults of a device and what it measures; device numbers are those that the
// process sees.
func TestHealth(t *testing.T) {
	ail(t, func(t *testing.T, say func(text string)) {
		rt := acltest.Open(t)
		h, err := rt.Health(background, 0)
		require.NoError(t, err)
		require.Equal(t, acl.Health{Card: 1, MemoryTotal: 256 << 20, Temperature: 40, Power: 90, Processes: []acl.Process{}}, h)
		buf, err := acltest.Device(t, rt, 0).MallocDirect(64<<20, acl.HugeFirst)
		require.NoError(t, err)
		say("1 alarm=3 fault=0x80e01801 fault=0x80e18005 corrected=5 uncorrected=2 celsius=93 deciwatts=3105\n")
		h, err = rt.Health(background, 0)
		require.NoError(t, err)
		require.GreaterOrEqual(t, h.MemoryUsed, 64<<20)
		require.Equal(t, []acl.Process{{ID: os.Getpid(), Memory: h.MemoryUsed}}, h.Processes)
		h.MemoryUsed, h.Processes = 0, nil
		require.Equal(t, acl.Health{
			Card: 1, Alarm: acl.AlarmCritical, MemoryTotal: 256 << 20, Temperature: 93, Power: 310.5,
			Faults: []acl.Fault{{Code: 0x80e01801, Text: "multi-bit ECC error of on-chip memory"}, {Code: 0x80e18005, Text: "fault 0x80e18005 of an emulated device"}},
			ECC:    acl.ECC{Corrected: 5, Uncorrected: 2, TotalCorrected: 5, TotalUncorrected: 2, RetiredPages: 2},
		}, h)
		require.Equal(t, "critical", h.Alarm.String())
		h, err = rt.Health(background, 1)
		require.NoError(t, err)
		require.Equal(t, 3, h.Card)
		require.Equal(t, acl.AlarmNone, h.Alarm)
		for _, none := range []int{-1, 2, 1 << 40} {
			_, err = rt.Health(background, none)
			require.ErrorIs(t, err, acl.ErrInvalidArgument, "%d", none)
		}
		require.NoError(t, buf.Close())
	}, "ASCEND_RT_VISIBLE_DEVICES=1,3", "CANN_EMU_MEMORY=256M")
}

// TestHealthUntold: what the driver does not support is -1, and other failures are errors.
func TestHealthUntold(t *testing.T) {
	acltest.Faults(t, "dcmi_get_device_power_info=-8255;dcmi_get_device_ecc_info=-8013;dcmi_get_device_hbm_info=-8255;dcmi_get_device_temperature:2=-8006;dcmi_get_device_health:3=-8255;dcmi_get_device_utilization_rate:1=-8255;dcmi_get_device_resource_info:1=-8255", func(t *testing.T) {
		rt := acltest.Open(t)
		h, err := rt.Health(background, 2)
		require.NoError(t, err)
		require.Equal(t, acl.Health{Card: 2, AICore: -1, MemoryUsed: -1, MemoryTotal: -1, Temperature: 40, Power: -1, ECC: acl.ECC{
			Corrected: -1, Uncorrected: -1, TotalCorrected: -1, TotalUncorrected: -1, RetiredPages: -1,
		}}, h)
		_, err = rt.Health(background, 2)
		require.ErrorIs(t, err, acl.ErrTimeout)
		var e *acl.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 2, e.Device)
		require.Equal(t, "DCMI_ERR_CODE_TIME_OUT", e.Name)
		_, err = rt.Health(background, 2)
		require.ErrorIs(t, err, acl.ErrNotSupported, "without alarms nothing is known")
		var none context.Context
		_, err = rt.Health(none, 2)
		require.ErrorIs(t, err, acl.ErrInvalidArgument)
		ended, cancel := context.WithTimeout(background, time.Nanosecond)
		defer cancel()
		<-ended.Done()
		_, err = rt.Health(ended, 2)
		if err != nil { // the answer may come first
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.NoError(t, rt.Close())
		_, err = rt.Health(background, 2)
		require.ErrorIs(t, err, acl.ErrClosed)
	})
}

// TestHealthAfterFault: memory that failed under an operator raises an alarm, until the device is reset.
func TestHealthAfterFault(t *testing.T) {
	acltest.Faults(t, "run/aclrtMemsetAsync=507054", func(t *testing.T) {
		rt, err := acl.Open(acl.Config{})
		require.NoError(t, err)
		dev, err := rt.Device(1)
		require.NoError(t, err)
		st, err := dev.NewStream()
		require.NoError(t, err)
		buf, err := st.Malloc(100)
		require.NoError(t, err)
		require.NoError(t, st.Memset(buf, 1, 100))
		require.ErrorIs(t, st.Synchronize(background), acl.ErrDeviceLost)
		h, err := rt.Health(background, 1)
		require.NoError(t, err)
		require.Equal(t, acl.AlarmCritical, h.Alarm)
		require.Equal(t, uint32(0x80e01801), h.Faults[0].Code)
		_ = buf.Close()
		_ = st.Close()
		require.NoError(t, dev.Close())
		h, err = rt.Health(background, 1)
		require.NoError(t, err)
		require.Equal(t, acl.AlarmNone, h.Alarm)
		require.Equal(t, 1, h.ECC.Uncorrected)
		require.NoError(t, rt.Close())
	})
}
