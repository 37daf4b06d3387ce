package rttest

// #include <stdint.h>
//
// struct state { void *object; int32_t state, calls, answer; };
//
// static int32_t note(void *object, int32_t state, void *argument)
// {
// 	struct state *s = argument;
// 	s->object = object;
// 	s->state = state;
// 	s->calls++;
// 	return s->answer;
// }
//
// static uint64_t note_address(void) { return (uint64_t)note; }
import "C"

// State records the calls of the function of NoteState: the object and the state of the last call, and the number of calls. Answer is the number that
// the function returns.
type State struct {
	Object               uint64
	State, Calls, Answer int32
}

// NoteState returns a C function that takes an object, its new state and the address of a State.
func NoteState() uint64 { return uint64(C.note_address()) }
