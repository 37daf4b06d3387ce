#ifdef __cplusplus

#include <cstdint>
#include <cstring>

namespace op {

// A bfloat16 as C++ programs of CANN use it: they make it of numbers and read it as one. It has the
// size and the bits of what the device computes with.
struct bfloat16 {
	std::uint16_t value;

	bfloat16() : value(0) {}
	bfloat16(float number) : value(round(number)) {}
	template <typename T> bfloat16(const T &number) : value(round(static_cast<float>(number))) {}

	operator float() const
	{
		const std::uint32_t bits = static_cast<std::uint32_t>(value) << 16;
		float number;
		std::memcpy(&number, &bits, sizeof number);
		return number;
	}

private:
	// The nearest bfloat16; of two as near, the even one.
	static std::uint16_t round(float number)
	{
		std::uint32_t bits;
		std::memcpy(&bits, &number, sizeof bits);
		if ((bits & 0x7fffffffu) > 0x7f800000u) {
			return 0x7fc0u; // no number
		}
		return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
	}
};

} // namespace op

#endif
