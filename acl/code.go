package acl

import (
	"fmt"
	"maps"
)

// Code is an aclError or aclnnStatus. The first digit is the class: 1 the caller's mistake,
// 2 a missing resource or feature, 3 a business limit, 5 a fault inside CANN or the device. Those
// of the driver's library for management are negative.
type Code int32

// Damage is how much a failure has made unusable.
type Damage uint8

// Damages, the lightest first.
const (
	DamageNone    Damage = iota // the call was refused; nothing changed
	DamageWork                  // work queued on the stream is lost or wrong; the device still works
	DamageContext               // a failure has stopped the context (StreamStopOnFailure): make it again
	DamageDevice                // the device is unusable until it is reset
)

// String describes what can still be used.
func (d Damage) String() string {
	return [...]string{
		"the device is still usable",
		"results on the stream are lost, the device is still usable",
		"a stream that stops on failure has stopped its context: close it and all that was made in it, and make it again",
		"the device is unusable: close everything on it and open it again, or restart the process",
	}[d]
}

// codeInfo is a code's entry in the tables.
type codeInfo struct {
	name    string // C name
	meaning string
	hint    string // "" = the group's hint
	group   error  // sentinel that errors.Is matches, or nil
	damage  Damage
}

// codes describes every code that CANN's runtime, aclnn and the driver's library return.
var codes = func() map[Code]codeInfo {
	all := make(map[Code]codeInfo, len(aclCodes)+len(runtimeCodes)+len(operatorCodes)+len(driverCodes))
	for _, table := range []map[Code]codeInfo{aclCodes, runtimeCodes, operatorCodes, driverCodes} {
		maps.Copy(all, table)
	}
	return all
}()

// String is the C name, such as "ACL_ERROR_RT_PARAM_INVALID".
func (c Code) String() string {
	if i, ok := codes[c]; ok {
		return i.name
	}
	return fmt.Sprintf("code %d", int32(c))
}

// Meaning explains the code in one line; it is "" for a code that is not in the tables.
func (c Code) Meaning() string { return codes[c].meaning }

// Hint describes what the caller can do about the code.
func (c Code) Hint() string {
	i := codes[c]
	if i.hint != "" {
		return i.hint
	}
	return groupHints[i.group]
}

// Damage reports what a failure with this code has made unusable. Unknown codes from 500000 on
// count as a fault of the device.
func (c Code) Damage() Damage {
	if i, ok := codes[c]; ok {
		return i.damage
	}
	if c >= 500000 {
		return DamageDevice
	}
	return DamageNone
}

// group is the sentinel of a code. Codes of newer CANN versions go by their class.
func (c Code) group() error {
	if i, ok := codes[c]; ok {
		return i.group
	}
	if c/100000 == 1 {
		return ErrInvalidArgument
	}
	return nil
}
