#ifdef __cplusplus

#include <cstdint>
#include <cstring>

namespace op {

// An IEEE 754 half as C++ programs of CANN use it: they make it of numbers and read it as one.
// It has the size and the bits of what the device computes with.
struct fp16_t {
	std::uint16_t val;

	fp16_t() : val(0) {}
	fp16_t(float value) : val(round(value)) {}
	fp16_t(double value) : val(round(static_cast<float>(value))) {}
	fp16_t(std::int32_t value) : val(round(static_cast<float>(value))) {}
	fp16_t(std::uint32_t value) : val(round(static_cast<float>(value))) {}
	fp16_t(std::int64_t value) : val(round(static_cast<float>(value))) {}

	operator float() const { return toFloat(); }

	float toFloat() const
	{
		const std::uint32_t sign = static_cast<std::uint32_t>(val & 0x8000u) << 16;
		const std::uint32_t exponent = (val >> 10) & 0x1fu;
		const std::uint32_t fraction = val & 0x3ffu;
		if (exponent == 0) {
			const float small = static_cast<float>(fraction) / 16777216.0f; // units of 2^-24
			return sign != 0 ? -small : small;
		}
		const std::uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
		float value;
		std::memcpy(&value, &bits, sizeof value);
		return value;
	}

	fp16_t &operator+=(fp16_t other) { return *this = toFloat() + other.toFloat(); }
	fp16_t &operator-=(fp16_t other) { return *this = toFloat() - other.toFloat(); }
	fp16_t &operator*=(fp16_t other) { return *this = toFloat() * other.toFloat(); }
	fp16_t &operator/=(fp16_t other) { return *this = toFloat() / other.toFloat(); }

private:
	// The nearest half; of two as near, the even one.
	static std::uint16_t round(float value)
	{
		std::uint32_t bits;
		std::memcpy(&bits, &value, sizeof bits);
		const std::uint32_t sign = (bits >> 16) & 0x8000u;
		const std::uint32_t size = bits & 0x7fffffffu;
		if (size > 0x7f800000u) {
			return static_cast<std::uint16_t>(sign | 0x7e00u); // no number
		}
		if (size >= 0x477ff000u) {
			return static_cast<std::uint16_t>(sign | 0x7c00u); // 65520 and more
		}
		std::uint32_t shift = 13, base = size - (112u << 23);
		if (size < 0x38800000u) { // below 2^-14: a multiple of 2^-24
			if (size < 0x33000000u) {
				return static_cast<std::uint16_t>(sign);
			}
			shift = 126 - (size >> 23);
			base = (size & 0x7fffffu) | 0x800000u;
		}
		const std::uint32_t half = (1u << (shift - 1)) - 1;
		return static_cast<std::uint16_t>(sign | ((base + half + ((base >> shift) & 1u)) >> shift));
	}
};

} // namespace op

#endif
