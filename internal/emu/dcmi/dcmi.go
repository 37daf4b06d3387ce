package dcmi

import (
	"sync/atomic"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Library is the emulated libdcmi of one process.
type Library struct {
	rt    *rt.Runtime
	ready atomic.Bool // after dcmi_init
	watch watch
}

// New returns the functions for the runtime of a process.
func New(r *rt.Runtime) *Library { return &Library{rt: r} }

// refusal is an error with the code that the library returns.
type refusal struct {
	code int32
	text string
}

func (r *refusal) Error() string { return r.text }

var (
	invalid  = &refusal{abi.DCMI_ERR_CODE_INVALID_PARAMETER, "an argument is null or out of range"}
	unknown  = &refusal{abi.DCMI_ERR_CODE_NOT_SUPPORT, "the emulated chip does not report this"}
	notReady = &refusal{abi.DCMI_ERR_CODE_NOT_REDAY, "dcmi_init was not called"}
	missing  = &refusal{abi.DCMI_ERR_CODE_DEVICE_NOT_EXIST, "there is no such device"}
)

func null(string, string) error { return invalid }

// answer returns the code of an error. Its text, which the library of the driver has not, goes where package
// cshim finds it.
func answer(t *rt.Thread, err error) rt.Code {
	if err == nil {
		return 0
	}
	code := int32(abi.DCMI_ERR_CODE_INNER_ERR)
	if r, ok := err.(*refusal); ok {
		code = r.code
	}
	return t.Fail(code, "dcmi: %v", err)
}

func (l *Library) dcmiInit() error {
	if _, err := l.rt.Machine(); err != nil {
		return err
	}
	l.ready.Store(true)
	return nil
}

// place returns the card of a die and the die's place there.
func (l *Library) place(die int) (card, chip int32) {
	c, _ := l.rt.Machine()
	a, b := c.Card(die)
	return int32(a), int32(b)
}

// cards returns the number of dies of each card.
func (l *Library) cards() (dies []int32) {
	for die := range l.rt.Dies() {
		card, chip := l.place(die)
		dies = append(dies[:card], chip+1)
	}
	return dies
}

func (l *Library) dcmiGetCardList(cardNum, cardList rt.Out[int32], listLen int32) error {
	cards := l.cards()
	switch {
	case !l.ready.Load():
		return notReady
	case listLen <= 0 || int(listLen) < len(cards):
		return invalid
	}
	all := make([]int32, len(cards))
	for i := range all {
		all[i] = int32(i)
	}
	cardList.Fill(all)
	cardNum.Set(int32(len(all)))
	return nil
}

// dcmiGetDeviceIdInCard: the cards have no management unit.
func (l *Library) dcmiGetDeviceIdInCard(cardID int32, deviceIDMax, mcuID, cpuID rt.Out[int32]) error {
	cards := l.cards()
	switch {
	case !l.ready.Load():
		return notReady
	case cardID < 0 || int(cardID) >= len(cards):
		return invalid
	}
	deviceIDMax.Set(cards[cardID])
	mcuID.Set(-1)
	cpuID.Set(-1)
	return nil
}

func (l *Library) dcmiGetDeviceLogicId(deviceLogicID rt.Out[int32], cardID, deviceID int32) error {
	die, err := l.die(cardID, deviceID)
	if err == nil {
		deviceLogicID.Set(int32(die))
	}
	return err
}

func (l *Library) dcmiGetCardIdDeviceIdFromLogicid(cardID, deviceID rt.Out[int32], deviceLogicID uint32) error {
	if !l.ready.Load() || uint64(deviceLogicID) >= uint64(len(l.rt.Dies())) {
		return missing
	}
	card, chip := l.place(int(deviceLogicID))
	cardID.Set(card)
	deviceID.Set(chip)
	return nil
}

// die returns the number of a die from its place.
func (l *Library) die(card, chip int32) (int, error) {
	if !l.ready.Load() {
		return 0, notReady
	}
	for die := range l.rt.Dies() {
		if a, b := l.place(die); a == card && b == chip {
			return die, nil
		}
	}
	return 0, invalid
}

func (l *Library) device(card, chip int32) (*rt.Device, error) {
	die, err := l.die(card, chip)
	if err != nil {
		return nil, err
	}
	return l.rt.Dies()[die], nil
}
