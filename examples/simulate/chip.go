package simulate

import (
	"embed"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/goascend/cann/examples/verdict"
)

// Chip has the figures of a die: a card of the 910B, half a card of the 910_93.
type Chip struct {
	Name string `json:"name"`
	// SoC is the name by which the emulator knows the chip (CANN_EMU_SOC).
	SoC string `json:"soc"`
	// Cube has the operations a second of matrix products by the type of their factors: bf16, fp16, hf32, fp32, int8.
	Cube map[string]float64 `json:"cube"`
	// Vector is the operations a second of the vector cores in float32.
	Vector float64 `json:"vector"`
	// Memory is the bytes a second that kernels read and write together, and Capacity the bytes that a process may have.
	Memory   float64 `json:"memory"`
	Capacity int     `json:"capacity"`
	// Launch is the time of the host for a launch, Start that of the device between two kernels, in seconds.
	Launch float64 `json:"launch"`
	Start  float64 `json:"start"`
	// AICPU is the bytes a second of kernels that run on the AI CPU.
	AICPU float64 `json:"aicpu"`
	// Host is the bytes a second of copies to and from the host.
	Host float64 `json:"host"`
	// HCCS joins dies of a domain, RoCE domains.
	HCCS Link `json:"hccs"`
	RoCE Link `json:"roce"`
	// Communicator is the bytes of device memory that HCCL keeps for a communicator: two buffers of HCCL_BUFFSIZE.
	Communicator int `json:"communicator"`
}

// Link has the figures of a kind of link.
type Link struct {
	Bandwidth float64 `json:"bandwidth"` // bytes a second that leave a die, and as many that reach it
	Pair      float64 `json:"pair"`      // of these between two dies
	Latency   float64 `json:"latency"`   // of a step of a collective, in seconds
	Dies      int     `json:"dies"`      // of a domain; of RoCE without meaning
}

// ChipTable has the verdict of each key of a chip's file.
var ChipTable = verdict.Table{Format: "chip.json", Keys: slices.Concat([]verdict.Key{
	verdict.Honour("name", "name of the chip; acl.Runtime.SoC returns it, or more behind it"),
	verdict.Honour("soc", "chip whose operators the emulator has, as CANN_EMU_SOC takes it"),
	verdict.Honour("cube.bf16", "operations a second of products of bfloat16"),
	verdict.Honour("cube.fp16", "the same of float16"),
	verdict.Honour("cube.hf32", "the same of float32 that are rounded to HF32"),
	verdict.Honour("cube.fp32", "the same of float32"),
	verdict.Honour("cube.int8", "the same of int8"),
	verdict.Honour("vector", "operations a second of the vector cores in float32"),
	verdict.Honour("memory", "bytes a second that kernels read and write together"),
	verdict.Honour("capacity", "bytes of device memory that a process may have"),
	verdict.Honour("launch", "seconds of the host for a launch"),
	verdict.Honour("start", "seconds of the device between two kernels of a stream"),
	verdict.Honour("aicpu", "bytes a second of kernels on the AI CPU"),
	verdict.Honour("host", "bytes a second of copies to and from the host"),
	verdict.Honour("communicator", "bytes of device memory of a communicator's buffers"),
	verdict.Honour("hccs.dies", "dies of a domain, which HCCS joins"),
	verdict.Refuse("roce.dies", "RoCE joins all domains", "0"),
	verdict.NoEffect("sources", "says where the figures come from"),
}, linkKeys("hccs"), linkKeys("roce"))}

func linkKeys(name string) []verdict.Key {
	return []verdict.Key{
		verdict.Honour(name+".bandwidth", "bytes a second that leave a die over this kind of link, and as many that reach it"),
		verdict.Honour(name+".pair", "bytes a second between two dies"),
		verdict.Honour(name+".latency", "seconds of a step of a collective"),
	}
}

//go:embed chips
var chips embed.FS

// ChipNames lists the chips that need no file.
func ChipNames() (names []string) {
	files, _ := chips.ReadDir("chips") // it is embedded
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".json"))
	}
	return names
}

// ChipOf returns the chip whose name a name begins with, as those of acl.Runtime.SoC do.
func ChipOf(soc string) (Chip, error) {
	for _, name := range ChipNames() {
		if strings.HasPrefix(soc, name) {
			text, err := chips.ReadFile(path.Join("chips", name+".json"))
			if err != nil {
				return Chip{}, err
			}
			return ParseChip(text)
		}
	}
	return Chip{}, fmt.Errorf("simulate: chip %q is not known; these are: %s; or name a file", soc, strings.Join(ChipNames(), ", "))
}

// ReadChip returns the chip of a name, or of a file whose name ends in .json.
func ReadChip(nameOrFile string) (Chip, error) {
	if path.Ext(nameOrFile) != ".json" {
		return ChipOf(nameOrFile)
	}
	text, err := os.ReadFile(nameOrFile)
	if err != nil {
		return Chip{}, fmt.Errorf("simulate: %w", err)
	}
	c, err := ParseChip(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", nameOrFile, err)
	}
	return c, err
}

// ParseChip reads a chip's file. All figures must be positive and none may be missing, except the types of Cube.
func ParseChip(text []byte) (c Chip, err error) {
	if _, err := ChipTable.Decode(text, &c); err != nil {
		return c, fmt.Errorf("simulate: %w", err)
	}
	for name, x := range map[string]float64{
		"vector": c.Vector, "memory": c.Memory, "capacity": float64(c.Capacity), "launch": c.Launch, "start": c.Start, "aicpu": c.AICPU, "host": c.Host,
		"communicator": float64(c.Communicator), "hccs.bandwidth": c.HCCS.Bandwidth, "hccs.pair": c.HCCS.Pair, "hccs.latency": c.HCCS.Latency,
		"hccs.dies": float64(c.HCCS.Dies), "roce.bandwidth": c.RoCE.Bandwidth, "roce.pair": c.RoCE.Pair, "roce.latency": c.RoCE.Latency, "cube": float64(len(c.Cube)),
	} {
		if !(x > 0 && x <= math.MaxFloat64) {
			err = fmt.Errorf("simulate: chip.json: %s is %g; it must be positive", name, x)
		}
	}
	for name, x := range c.Cube {
		if !(x > 0 && x <= math.MaxFloat64) {
			err = fmt.Errorf("simulate: chip.json: cube.%s is %g; it must be positive", name, x)
		}
	}
	if c.Name == "" || c.SoC == "" {
		err = fmt.Errorf("simulate: chip.json: name is %q and soc %q; both are needed", c.Name, c.SoC)
	}
	return c, err
}
