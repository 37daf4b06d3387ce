package public

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	compact "go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

// ascendJob has the fields of mind-cluster's AscendJob, mindxdl.gitee.com/v1, that a manifest may set.
type ascendJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SchedulerName string `json:"schedulerName"`
		SuccessPolicy string `json:"successPolicy"` // "" or AllWorkers
		RunPolicy     struct {
			CleanPodPolicy          string `json:"cleanPodPolicy"`
			TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished"`
			ActiveDeadlineSeconds   *int64 `json:"activeDeadlineSeconds"`
			BackoffLimit            *int32 `json:"backoffLimit"`
			SchedulingPolicy        struct {
				MinAvailable  int32               `json:"minAvailable"`
				Queue         string              `json:"queue"`
				PriorityClass string              `json:"priorityClass"`
				MinResources  corev1.ResourceList `json:"minResources"`
			} `json:"schedulingPolicy"`
		} `json:"runPolicy"`
		ReplicaSpecs map[string]struct {
			Replicas      int32                  `json:"replicas"`
			RestartPolicy string                 `json:"restartPolicy"` // Always, OnFailure, Never or ExitCode
			Template      corev1.PodTemplateSpec `json:"template"`
		} `json:"replicaSpecs"`
	} `json:"spec"`
}

// volcanoPolicy is an entry of policies in a job of Volcano.
type volcanoPolicy struct {
	Action   string   `json:"action"`
	Event    string   `json:"event"`
	Events   []string `json:"events"`
	ExitCode *int32   `json:"exitCode"`
	Timeout  string   `json:"timeout"`
}

// volcanoJob has the fields of a Job of Volcano, batch.volcano.sh/v1alpha1, that a manifest may set.
type volcanoJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SchedulerName           string              `json:"schedulerName"`
		MinAvailable            int32               `json:"minAvailable"`
		Queue                   string              `json:"queue"`
		MaxRetry                int32               `json:"maxRetry"`
		TTLSecondsAfterFinished *int32              `json:"ttlSecondsAfterFinished"`
		PriorityClassName       string              `json:"priorityClassName"`
		Plugins                 map[string][]string `json:"plugins"`
		Policies                []volcanoPolicy     `json:"policies"`
		Tasks                   []struct {
			Name         string                 `json:"name"`
			Replicas     int32                  `json:"replicas"`
			MinAvailable *int32                 `json:"minAvailable"`
			MaxRetry     int32                  `json:"maxRetry"`
			Policies     []volcanoPolicy        `json:"policies"`
			Template     corev1.PodTemplateSpec `json:"template"`
		} `json:"tasks"`
	} `json:"spec"`
}

// manifest is one document of a manifest, and the pods that it makes.
type manifest struct {
	file   string
	object any
	pods   []corev1.PodTemplateSpec
}

// manifests reads what examples/deploy has for Kubernetes. A field that the schema lacks is an error.
func manifests(t testing.TB) (all []manifest) {
	files, err := filepath.Glob(filepath.Join(repository(t), "examples/deploy/kubernetes/*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		name, err := filepath.Rel(repository(t), file)
		require.NoError(t, err)
		documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text(t, name))))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			m, err := decode(document)
			require.NoError(t, err, name)
			m.file = name
			all = append(all, m)
		}
	}
	return all
}

// decode reads a document by its kind.
func decode(document []byte) (m manifest, err error) {
	var head metav1.TypeMeta
	if err := strict.Unmarshal(document, &head); err != nil {
		return m, err
	}
	switch head.APIVersion + " " + head.Kind {
	case "apps/v1 Deployment":
		var d appsv1.Deployment
		err = strict.UnmarshalStrict(document, &d)
		m.object, m.pods = d, []corev1.PodTemplateSpec{d.Spec.Template}
	case "v1 Service":
		var s corev1.Service
		err = strict.UnmarshalStrict(document, &s)
		m.object = s
	case "policy/v1 PodDisruptionBudget":
		var b policyv1.PodDisruptionBudget
		err = strict.UnmarshalStrict(document, &b)
		m.object = b
	case "mindxdl.gitee.com/v1 AscendJob":
		var j ascendJob
		err = strict.UnmarshalStrict(document, &j)
		m.object = j
		for _, r := range j.Spec.ReplicaSpecs {
			m.pods = append(m.pods, r.Template)
		}
	case "batch.volcano.sh/v1alpha1 Job":
		var j volcanoJob
		err = strict.UnmarshalStrict(document, &j)
		m.object = j
		for _, task := range j.Spec.Tasks {
			m.pods = append(m.pods, task.Template)
		}
	default:
		err = errors.New("there is no schema here for " + head.APIVersion + " " + head.Kind)
	}
	return m, err
}

// npu is the resource that the Ascend device plugin offers.
const npu = "huawei.com/Ascend910"

// TestManifests: the manifests have the fields of their kinds, pods mount volumes that they have, ask
// for whole devices, and start programs of this repository with flags that these know.
func TestManifests(t *testing.T) {
	pods := 0
	for _, m := range manifests(t) {
		for _, pod := range m.pods {
			pods++
			volumes := map[string]bool{}
			for _, v := range pod.Spec.Volumes {
				volumes[v.Name] = true
			}
			require.Len(t, pod.Spec.Containers, 1, m.file)
			c := pod.Spec.Containers[0]
			for _, mount := range c.VolumeMounts {
				assert.True(t, volumes[mount.Name], "%s: %s mounts %s", m.file, c.Name, mount.Name)
			}
			wanted, limit := c.Resources.Requests[npu], c.Resources.Limits[npu]
			assert.True(t, wanted.Equal(limit) && limit.Value() > 0, "%s: devices are given whole, so requests and limits are the same", m.file)
			assert.NotEmpty(t, programsOf(t, m.file, c.Args), m.file)
		}
	}
	require.Equal(t, 5, pods)
	_, err := decode([]byte("apiVersion: v1\nkind: Service\nspec: {port: 80}\n"))
	assert.ErrorContains(t, err, "port")
}

// TestJobManifests: what the operators of the cluster and launch demand of each other.
func TestJobManifests(t *testing.T) {
	for _, m := range manifests(t) {
		switch j := m.object.(type) {
		case ascendJob:
			assert.Contains(t, []string{"", "AllWorkers"}, j.Spec.SuccessPolicy)
			total := int32(0)
			for name, r := range j.Spec.ReplicaSpecs {
				total += r.Replicas
				assert.Contains(t, []string{"Master", "Worker"}, name)
				c := r.Template.Spec.Containers[0]
				assert.Equal(t, "ascend", c.Name, "the operator sets variables in this container only")
				assert.Equal(t, "ascendjob-port", c.Ports[0].Name, "MASTER_PORT is the port of this name")
			}
			assert.Equal(t, total, j.Spec.RunPolicy.SchedulingPolicy.MinAvailable, "all pods or none")
		case volcanoJob:
			assert.Contains(t, j.Spec.Plugins, "pytorch")
			total := int32(0)
			for _, task := range j.Spec.Tasks {
				total += task.Replicas
				assert.Contains(t, strings.Join(j.Spec.Plugins["pytorch"], " "), "="+task.Name)
				devices := task.Template.Spec.Containers[0].Resources.Limits[npu]
				assert.Contains(t, strings.Join(task.Template.Spec.Containers[0].Args, " "), " -n "+devices.String()+" ")
			}
			assert.Equal(t, total, j.Spec.MinAvailable)
		}
	}
}

// TestServeManifest: a rolling update has what it needs to lose no request, and the paths of the probes
// are those of the server.
func TestServeManifest(t *testing.T) {
	all := manifests(t)
	i := slices.IndexFunc(all, func(m manifest) bool { _, ok := m.object.(appsv1.Deployment); return ok })
	require.GreaterOrEqual(t, i, 0)
	d := all[i].object.(appsv1.Deployment)
	assert.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
	assert.Zero(t, d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
	c := d.Spec.Template.Spec.Containers[0]
	server := text(t, "examples/serve/api/server.go")
	for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		assert.Contains(t, server, `"GET `+p.HTTPGet.Path+`"`)
	}
	drain, err := time.ParseDuration(c.Args[slices.Index(c.Args, "-drain")+1])
	require.NoError(t, err)
	assert.Greater(t, float64(*d.Spec.Template.Spec.TerminationGracePeriodSeconds), drain.Seconds()+float64(c.Lifecycle.PreStop.Sleep.Seconds))
}

// programsOf checks the programs that a container starts: each must know the flags behind it.
func programsOf(t testing.TB, where string, args []string) (programs []string) {
	known := ""
	for _, word := range strings.Fields(strings.Join(args, " ")) {
		switch {
		case slices.Contains([]string{"serve", "launch", "trainstep", "generate", "npuinfo"}, word):
			programs, known = append(programs, word), help(t, word)
		case known != "" && strings.HasPrefix(word, "-") && word != "--":
			assert.Regexp(t, `(?m)^  `+regexp.QuoteMeta(word)+`\b`, known, "%s: %s has no flag %s", where, programs[len(programs)-1], word)
		}
	}
	return programs
}

// help returns what a program says of its flags.
func help(t testing.TB, program string) string {
	return command(t, repository(t), nil, "bash", "-c", "go run -tags emu ./examples/"+program+" -h 2>&1")
}

// TestDockerfiles: they parse without a warning of the linter, copy what exists, and build programs of
// this repository.
func TestDockerfiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repository(t), "examples/deploy/*.Dockerfile"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		name, err := filepath.Rel(repository(t), file)
		require.NoError(t, err)
		parsed, err := parser.Parse(strings.NewReader(text(t, name)))
		require.NoError(t, err, name)
		assert.Empty(t, parsed.Warnings, name)
		warn := func(rule, description, _, format string, _ []parser.Range) {
			t.Errorf("%s: %s: %s", name, rule, format)
		}
		stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: warn}))
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, len(stages), 2, name)
		assert.Subset(t, beforeDownload(stages), modules(t), "%s: go mod download needs all modules of go.work", name)
		for _, stage := range stages {
			for _, c := range stage.Commands {
				copied, ok := c.(*instructions.CopyCommand)
				if !ok || copied.From != "" {
					continue
				}
				for _, source := range copied.SourcePaths {
					_, err := os.Stat(filepath.Join(repository(t), source))
					assert.NoError(t, err, name)
				}
			}
		}
		for _, program := range regexp.MustCompile(`\./examples/\w+`).FindAllString(text(t, name), -1) {
			assert.FileExists(t, filepath.Join(repository(t), program, "main.go"), name)
		}
	}
}

// modules lists the go.mod of each module in go.work.
func modules(t *testing.T) (files []string) {
	work, err := modfile.ParseWork("go.work", []byte(text(t, "go.work")), nil)
	require.NoError(t, err)
	for _, use := range work.Use {
		files = append(files, filepath.Join(use.Path, "go.mod"))
	}
	return files
}

// beforeDownload lists the files that a Dockerfile copies before it downloads the modules that they name.
func beforeDownload(stages []instructions.Stage) (files []string) {
	for _, stage := range stages {
		for _, c := range stage.Commands {
			switch c := c.(type) {
			case *instructions.CopyCommand:
				files = append(files, c.SourcePaths...)
			case *instructions.RunCommand:
				if strings.Contains(strings.Join(c.CmdLine, " "), "go mod download") {
					return files
				}
			}
		}
	}
	return nil
}

// compose has the fields of a file for docker compose that the one here uses.
type compose struct {
	Services map[string]struct {
		Build           struct{ Context, Dockerfile string }
		Command         []string
		Ports           []string
		StopGracePeriod string   `yaml:"stop_grace_period"`
		ReadOnly        bool     `yaml:"read_only"`
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
	}
}

// TestCompose: the file for docker compose names a Dockerfile that exists, and flags that serve knows.
func TestCompose(t *testing.T) {
	const name = "examples/deploy/compose.yaml"
	var c compose
	d := compact.NewDecoder(strings.NewReader(text(t, name)))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&c))
	s, ok := c.Services["serve"]
	require.True(t, ok)
	assert.FileExists(t, filepath.Join(repository(t), filepath.Dir(name), s.Build.Context, s.Build.Dockerfile))
	assert.Equal(t, []string{"serve"}, programsOf(t, name, append([]string{"serve"}, s.Command...)))
}
