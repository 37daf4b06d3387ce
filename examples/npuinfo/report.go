package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/npuinfo/smoke"
	"github.com/goascend/cann/ops"
)

// report holds the findings of npuinfo.
type report struct {
	Binding   string            `json:"binding"` // versions of CANN that the binding knows
	Go        string            `json:"go"`
	Libraries []library         `json:"libraries"`
	Runtime   runtimeInfo       `json:"runtime"`
	Devices   []device          `json:"devices"`
	Kernels   []string          `json:"kernels"` // the choice of each operator for a bfloat16 model
	Knobs     map[string]string `json:"environment"`
	Toolkit   *smoke.Toolkit    `json:"toolkit,omitempty"`  // with -smoke or -toolkit
	Foreseen  []smoke.Forecast  `json:"foreseen,omitempty"` // calls of ops that the toolkit does not run on the AI Core
	Smoke     *smoke.Report     `json:"smoke,omitempty"`
}

// library is a group of CANN's libraries.
type library struct {
	Name      string   `json:"name"`
	Paths     []string `json:"paths,omitempty"`
	Functions int      `json:"functions"`         // number of functions that the binding knows
	Missing   []string `json:"missing,omitempty"` // functions that the library lacks
	Error     string   `json:"error,omitempty"`
}

type runtimeInfo struct {
	API      string `json:"api,omitempty"`
	CANN     string `json:"cann,omitempty"`
	Release  string `json:"release,omitempty"` // whose functions the libraries have
	SoC      string `json:"soc,omitempty"`
	Emulated bool   `json:"emulated"`
	Error    string `json:"error,omitempty"`
}

type device struct {
	ID int `json:"id"`
	acl.Properties
	Free  int `json:"free"`
	Total int `json:"total"`
	// Health is nil if the driver does not report it, for the reason in Silence.
	Health  *acl.Health `json:"health,omitempty"`
	Silence string      `json:"healthError,omitempty"`
}

func inspect() (*report, error) {
	r := &report{
		Binding: strings.Join(acl.KnownVersions(), ", "), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, Knobs: knobs(),
	}
	libraries, err := acl.Libraries()
	if err != nil {
		return nil, err
	}
	for _, l := range libraries {
		info := library{Name: l.Name, Paths: l.Paths, Functions: l.Functions, Missing: l.Missing}
		if l.Err != nil {
			info.Error = l.Err.Error()
		}
		r.Libraries = append(r.Libraries, info)
	}
	if err := r.inspectRuntime(); err != nil {
		r.Runtime.Error = err.Error()
	}
	return r, nil
}

func (r *report) inspectRuntime() (err error) {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	version, err := rt.Version()
	if err != nil {
		return err
	}
	r.Runtime.API, r.Runtime.SoC, r.Runtime.Emulated = version.String(), rt.SoC(), rt.Emulated()
	if r.Runtime.CANN, err = rt.CANNVersion(); err != nil {
		r.Runtime.CANN = "unknown: " + err.Error()
	}
	if r.Runtime.Release, err = acl.InstalledRelease(); err != nil {
		return err
	}
	n, err := rt.DeviceCount()
	if err != nil {
		return err
	}
	for id := range n {
		if err := r.inspectDevice(rt, id); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) inspectDevice(rt *acl.Runtime, id int) (err error) {
	dev, err := rt.Device(id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	d := device{ID: id}
	if d.Properties, err = dev.Properties(); err != nil {
		return err
	}
	if d.Free, d.Total, err = dev.MemInfo(); err != nil {
		return err
	}
	if h, err := rt.Health(context.Background(), id); err == nil {
		d.Health = &h
	} else {
		d.Silence = err.Error()
	}
	r.Devices = append(r.Devices, d)
	if id == 0 {
		r.Kernels, err = kernels(dev)
	}
	return err
}

// kernels asks the operators which kernel they would choose for small bfloat16 tensors.
func kernels(dev *acl.Device) (lines []string, err error) {
	st, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	var made []*aclnn.Tensor
	tensor := func(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
		t, newErr := aclnn.New(st, dt, shape...)
		if newErr != nil {
			err = errors.Join(err, newErr)
			return new(aclnn.Tensor)
		}
		made = append(made, t)
		return t
	}
	x, w := tensor(aclnn.BFloat16, 16, 64), tensor(aclnn.BFloat16, 64, 64)
	experts, scale := tensor(aclnn.BFloat16, 2, 64, 64), tensor(aclnn.BFloat16, 64)
	if err == nil {
		lines = []string{
			reg.Linear().Explain(&ops.LinearArgs{X: x, Weight: w, Out: x}).String(),
			reg.RMSNorm().Explain(&ops.RMSNormArgs{X: x, Weight: scale, Epsilon: 1e-6, Out: x}).String(),
			reg.SwiGLU().Explain(&ops.SwiGLUArgs{X: x, Out: x.Narrow(1, 0, 32)}).String(),
			reg.GroupedMatmul().Explain(&ops.GroupedMatmulArgs{X: x, Weight: experts, Groups: ops.Groups{Host: []int64{8, 8}}, Out: x}).String(),
		}
	}
	err = errors.Join(err, st.Synchronize(context.Background()))
	for _, t := range made {
		err = errors.Join(err, t.Close())
	}
	return lines, errors.Join(err, reg.Close(), st.Close())
}

// knobs returns the variables that configure this module, the emulator or CANN.
func knobs() map[string]string {
	all := make(map[string]string)
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		for _, prefix := range []string{"CANN_", "ASCEND_", "HCCL_", "ACL_", "ACLNN_"} {
			if strings.HasPrefix(name, prefix) && name != "CANN_JOB_SECRET" {
				all[name] = value
			}
		}
	}
	return all
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
