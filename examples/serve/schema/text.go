package schema

// States of a string: between characters; after a backslash; before the digits of \u, of which those that begin
// with d must go on below 8, because the others are halves of characters; and within a character of several bytes,
// where the state holds how many are missing and the bounds of the next.
const (
	between = iota
	escaped
	hex1
	hex2
	hex2low
	hex3
	hex4
	within
)

// missing is the state within a character.
func missing(bytes, low, high int) int { return within + 1<<24*bytes + low<<16 + high<<8 }

// inString reads a byte of a string. Ended says that it was the closing quote.
func inString(state int, b byte) (next int, ended, ok bool) {
	switch state {
	case between:
		return startOfCharacter(b)
	case escaped:
		switch b {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			return between, false, true
		case 'u':
			return hex1, false, true
		}
		return 0, false, false
	case hex1, hex2, hex2low, hex3, hex4:
		digit := b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f'
		next = map[int]int{hex1: hex2, hex2: hex3, hex2low: hex3, hex3: hex4, hex4: between}[state]
		if state == hex1 && b|0x20 == 'd' {
			next = hex2low
		}
		return next, false, digit && (state != hex2low || b < '8')
	}
	left, low, high := state>>24, state>>16&0xff, state>>8&0xff
	switch {
	case int(b) < low || int(b) > high:
		return 0, false, false
	case left == 1:
		return between, false, true
	}
	return missing(left-1, 0x80, 0xbf), false, true
}

// startOfCharacter reads the first byte of a character, or what is not a character.
func startOfCharacter(b byte) (next int, ended, ok bool) {
	switch {
	case b == '"':
		return 0, true, true
	case b == '\\':
		return escaped, false, true
	case b >= 0x20 && b < 0x80:
		return between, false, true
	case b >= 0xc2 && b < 0xe0:
		return missing(1, 0x80, 0xbf), false, true
	case b == 0xe0:
		return missing(2, 0xa0, 0xbf), false, true
	case b == 0xed:
		return missing(2, 0x80, 0x9f), false, true
	case b > 0xe0 && b < 0xf0:
		return missing(2, 0x80, 0xbf), false, true
	case b == 0xf0:
		return missing(3, 0x90, 0xbf), false, true
	case b > 0xf0 && b < 0xf4:
		return missing(3, 0x80, 0xbf), false, true
	case b == 0xf4:
		return missing(3, 0x80, 0x8f), false, true
	}
	return 0, false, false
}

// States of a number, plus counted for each digit of its part.
const (
	start = iota
	minus
	zero
	whole
	point
	fraction
	exponent
	sign
	power
	counted = 16
)

// mostDigits are those of a part of a number, and mostPower those of its exponent: texts come to an end.
const mostDigits, mostPower = 15, 2

// inNumber reads a byte of a number, which may have a fraction and an exponent or not.
func inNumber(state int, b byte, fractions bool) (next int, ok bool) {
	at, count := state%counted, state/counted
	digit := b >= '0' && b <= '9'
	switch {
	case at == start && b == '-':
		return minus, true
	case (at == start || at == minus) && b == '0':
		return zero, true
	case (at == start || at == minus) && digit:
		return whole + counted, true
	case (at == whole || at == fraction) && digit:
		return state + counted, count < mostDigits
	case at == power && digit:
		return state + counted, count < mostPower
	case at == point && digit:
		return fraction + counted, true
	case (at == exponent || at == sign) && digit:
		return power + counted, true
	case !fractions:
		return 0, false
	case (at == zero || at == whole) && b == '.':
		return point, true
	case (at == zero || at == whole || at == fraction) && b|0x20 == 'e':
		return exponent, true
	case at == exponent && (b == '+' || b == '-'):
		return sign, true
	}
	return 0, false
}

// numberEnds reports whether a number may end in a state.
func numberEnds(state int) bool {
	switch state % counted {
	case zero, whole, fraction, power:
		return true
	}
	return false
}
