// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host_driver/tensor/stick_kernels.cpp"
#include "host_driver/tensor/stick_kernels.hpp"

#include <cstring>
#include <type_traits>

#include "hwy/foreach_target.h"  // compiles this file once per instruction set
#include "hwy/highway.h"

#include "shared/dl16.hpp"
#include "shared/units.hpp"

HWY_BEFORE_NAMESPACE();
namespace svp::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::ScalableTag<std::uint16_t>;
using D32 = hn::ScalableTag<std::uint32_t>;
using Half16 = hn::Half<D16>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

// Applies a 32-bit function to each 16-bit lane (the result fits in 16 bits).
template <class F>
HWY_INLINE V16 through_32_bits(V16 v, F f) {
  const hn::RebindToSigned<D32> i32;
  const auto low = f(hn::PromoteTo(D32(), hn::LowerHalf(Half16(), v)));
  const auto high = f(hn::PromoteTo(D32(), hn::UpperHalf(Half16(), v)));
  return hn::Combine(D16(), hn::DemoteTo(Half16(), hn::BitCast(i32, high)),
                     hn::DemoteTo(Half16(), hn::BitCast(i32, low)));
}

HWY_INLINE V32 dl16_from_fp32(V32 bits) {
  const D32 d;
  const hn::RebindToSigned<D32> i;
  const V32 sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000U));
  const V32 magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFU));
  const V32 rounded = hn::ShiftRight<14>(hn::Add(magnitude, hn::Set(d, 0x2000U)));  // half away from zero
  const auto code = hn::Sub(hn::BitCast(i, rounded), hn::Set(i, 96 << wire::kDl16FractionBits));
  const auto positive = hn::Max(code, hn::Zero(i));
  const auto limited =
      hn::IfThenElse(hn::Gt(positive, hn::Set(i, wire::kDl16Max)), hn::Set(i, wire::kDl16Infinity), positive);
  const auto nan = hn::Gt(hn::BitCast(i, magnitude), hn::Set(i, 0x7F800000));
  return hn::Or(hn::BitCast(d, hn::IfThenElse(nan, hn::Set(i, wire::kDl16Nan), limited)), sign);
}

HWY_INLINE V32 fp32_from_dl16(V32 code) {
  const D32 d;
  const V32 sign = hn::ShiftLeft<16>(hn::And(code, hn::Set(d, 0x8000U)));
  const V32 magnitude = hn::And(code, hn::Set(d, 0x7FFFU));
  const V32 number = hn::Add(hn::ShiftLeft<14>(magnitude), hn::Set(d, 96U << 23));
  const V32 infinite =
      hn::IfThenElse(hn::Eq(magnitude, hn::Set(d, wire::kDl16Infinity)), hn::Set(d, 0x7F800000U), number);
  const V32 any = hn::IfThenElse(hn::Eq(magnitude, hn::Set(d, wire::kDl16Nan)), hn::Set(d, 0x7FC00000U), infinite);
  return hn::Or(hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(d)), any), sign);
}

// 16-bit compares are done signed (magnitudes have 15 bits): an unsigned compare costs an extra step before AVX-512.
HWY_INLINE auto below(V16 magnitude, std::int16_t limit) {
  const hn::RebindToSigned<D16> i;
  return hn::RebindMask(D16(), hn::Lt(hn::BitCast(i, magnitude), hn::Set(i, limit)));
}

struct Fp16Dl16 {
  using Host = std::uint16_t;
  using Device = std::uint16_t;

  // value = magnitude × 2^-24, at most ten significant bits: converting the integer to fp32 normalises it.
  static HWY_INLINE V16 from_subnormal(V16 magnitude) {
    return through_32_bits(magnitude, [](V32 m) HWY_ATTR {
      const hn::RebindToSigned<D32> i;
      const hn::RebindToFloat<D32> f;
      const V32 bits = hn::BitCast(D32(), hn::ConvertTo(f, hn::BitCast(i, m)));
      const V32 code = hn::Sub(hn::ShiftRight<14>(bits), hn::Set(D32(), 120U << wire::kDl16FractionBits));
      return hn::IfThenZeroElse(hn::Eq(m, hn::Zero(D32())), hn::And(code, hn::Set(D32(), 0x7FFFU)));
    });
  }

  static HWY_INLINE V16 to_device(V16 bits) {
    const D16 d;
    const V16 sign = hn::And(bits, hn::Set(d, 0x8000));
    const V16 magnitude = hn::And(bits, hn::Set(d, 0x7FFF));
    const V16 rounded = hn::ShiftRight<1>(hn::Add(magnitude, hn::Set(d, 1)));  // half away from zero
    V16 code = hn::Add(rounded, hn::Set(d, 16U << wire::kDl16FractionBits));
    const V16 no_number = hn::IfThenElse(below(magnitude, wire::kFp16Infinity + 1), hn::Set(d, wire::kDl16Infinity),
                                         hn::Set(d, wire::kDl16Nan));
    code = hn::IfThenElse(below(magnitude, wire::kFp16Infinity), code, no_number);
    const auto tiny = below(magnitude, 0x0400);
    code = hn::IfThenZeroElse(tiny, code);
    const auto zero = hn::Eq(magnitude, hn::Zero(d));
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::AndNot(zero, tiny)))) {
      code = hn::IfThenElse(tiny, from_subnormal(magnitude), code);
    }
    return hn::Or(code, sign);
  }

  // 0.5 has a unit of 2^-24 in the last place: adding it rounds to fp16's subnormal grid, nearest even.
  static HWY_INLINE V16 to_subnormal(V16 magnitude) {
    return through_32_bits(magnitude, [](V32 m) HWY_ATTR {
      const hn::RebindToFloat<D32> f;
      const auto sum = hn::Add(hn::BitCast(f, fp32_from_dl16(m)), hn::Set(f, 0.5F));
      const V32 count = hn::Sub(hn::BitCast(D32(), sum), hn::BitCast(D32(), hn::Set(f, 0.5F)));
      return hn::And(count, hn::Set(D32(), 0x7FFFU));  // lanes that are not tiny are not used
    });
  }

  static HWY_INLINE V16 to_host(V16 code) {
    const D16 d;
    const V16 sign = hn::And(code, hn::Set(d, 0x8000));
    const V16 magnitude = hn::And(code, hn::Set(d, 0x7FFF));
    V16 bits = hn::Sub(hn::Add(magnitude, magnitude), hn::Set(d, 16U << 10));
    const V16 beyond = hn::IfThenElse(below(magnitude, wire::kDl16OfFp16Max + 1), hn::Set(d, wire::kFp16Max),
                                      hn::Set(d, wire::kFp16Infinity));
    bits = hn::IfThenElse(below(magnitude, wire::kDl16OfFp16Max), bits, beyond);
    bits = hn::IfThenElse(hn::Eq(magnitude, hn::Set(d, wire::kDl16Nan)), hn::Set(d, 0x7E00), bits);
    const auto tiny = below(magnitude, 17 << wire::kDl16FractionBits);
    bits = hn::IfThenZeroElse(tiny, bits);
    const auto zero = hn::Eq(magnitude, hn::Zero(d));
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::AndNot(zero, tiny)))) {
      bits = hn::IfThenElse(tiny, to_subnormal(magnitude), bits);
    }
    return hn::Or(bits, sign);
  }

  static HWY_INLINE V16 load_to_device(const Host* from) { return to_device(hn::LoadU(D16(), from)); }
  static HWY_INLINE void store_to_host(const Device* from, Host* to) {
    hn::StoreU(to_host(hn::LoadU(D16(), from)), D16(), to);
  }
};

struct Bf16Dl16 {
  using Host = std::uint16_t;
  using Device = std::uint16_t;

  static HWY_INLINE V16 load_to_device(const Host* from) {
    return through_32_bits(hn::LoadU(D16(), from),
                           [](V32 bits) HWY_ATTR { return dl16_from_fp32(hn::ShiftLeft<16>(bits)); });
  }
  // Nearest even; no DL16 number is outside bf16's range, and the NaN is quiet, so a carry never makes an infinity.
  static HWY_INLINE void store_to_host(const Device* from, Host* to) {
    const V16 bits = through_32_bits(hn::LoadU(D16(), from), [](V32 code) HWY_ATTR {
      const V32 wide = fp32_from_dl16(code);
      const V32 odd = hn::And(hn::ShiftRight<16>(wide), hn::Set(D32(), 1U));
      return hn::ShiftRight<16>(hn::Add(wide, hn::Add(odd, hn::Set(D32(), 0x7FFFU))));
    });
    hn::StoreU(bits, D16(), to);
  }
};

struct Fp32Dl16 {
  using Host = std::uint32_t;
  using Device = std::uint16_t;

  static HWY_INLINE V16 load_to_device(const Host* from) {
    const hn::RebindToSigned<D32> i;
    const V32 low = dl16_from_fp32(hn::LoadU(D32(), from));
    const V32 high = dl16_from_fp32(hn::LoadU(D32(), from + hn::Lanes(D32())));
    return hn::Combine(D16(), hn::DemoteTo(Half16(), hn::BitCast(i, high)),
                       hn::DemoteTo(Half16(), hn::BitCast(i, low)));
  }
  static HWY_INLINE void store_to_host(const Device* from, Host* to) {
    const std::size_t half = hn::Lanes(D32());
    hn::StoreU(fp32_from_dl16(hn::PromoteTo(D32(), hn::LoadU(Half16(), from))), D32(), to);
    hn::StoreU(fp32_from_dl16(hn::PromoteTo(D32(), hn::LoadU(Half16(), from + half))), D32(), to + half);
  }
};

// Conversions of one element, of which the compiler makes vector code for each instruction set.
struct Int64Int32 {
  using Host = std::int64_t;
  using Device = std::int32_t;
  static HWY_INLINE Device to_device(Host value) {
    const Host low = value < INT32_MAX ? value : Host{INT32_MAX};
    return static_cast<Device>(low > INT32_MIN ? low : Host{INT32_MIN});
  }
  static HWY_INLINE Host to_host(Device value) { return value; }
};
struct Uint8Uint32 {
  using Host = std::uint8_t;
  using Device = std::uint32_t;
  static HWY_INLINE Device to_device(Host value) { return value; }
  static HWY_INLINE Host to_host(Device value) { return static_cast<Host>(value); }
};
struct BoolDl16 {
  using Host = std::uint8_t;
  using Device = std::uint16_t;
  static HWY_INLINE Device to_device(Host value) { return value != 0 ? wire::kDl16Bias << wire::kDl16FractionBits : 0; }
  static HWY_INLINE Host to_host(Device code) { return (code & wire::kDl16MagnitudeBits) != 0 ? 1 : 0; }
};
template <class Op>
inline constexpr bool kByElement =
    std::is_same_v<Op, Int64Int32> || std::is_same_v<Op, Uint8Uint32> || std::is_same_v<Op, BoolDl16>;

// A stick is a whole number of vectors for every vector length up to 128 bytes; the lane count is a constant here.
template <class Op>
inline constexpr std::size_t kStickElements = wire::kStickBytes / sizeof(typename Op::Device);

template <class Op>
HWY_INLINE void fill_stick(const typename Op::Host* HWY_RESTRICT host, typename Op::Device* HWY_RESTRICT device) {
  if constexpr (kByElement<Op>) {
    for (std::size_t i = 0; i < kStickElements<Op>; ++i) device[i] = Op::to_device(host[i]);
  } else {
    for (std::size_t i = 0; i < kStickElements<Op>; i += hn::Lanes(D16())) {
      hn::StoreU(Op::load_to_device(host + i), D16(), device + i);
    }
  }
}

template <class Op>
HWY_INLINE void drain_stick(const typename Op::Device* HWY_RESTRICT device, typename Op::Host* HWY_RESTRICT host) {
  if constexpr (kByElement<Op>) {
    for (std::size_t i = 0; i < kStickElements<Op>; ++i) host[i] = Op::to_host(device[i]);
  } else {
    for (std::size_t i = 0; i < kStickElements<Op>; i += hn::Lanes(D16())) Op::store_to_host(device + i, host + i);
  }
}

// Zero has the code zero in every format, so padding the input pads the output.
template <class Op>
HWY_NOINLINE void fill_part(const typename Op::Host* host, typename Op::Device* device, std::size_t lanes) {
  typename Op::Host padded[kStickElements<Op>] = {};
  std::memcpy(padded, host, lanes * sizeof(padded[0]));
  fill_stick<Op>(padded, device);
}

template <class Op>
HWY_NOINLINE void drain_part(const typename Op::Device* device, typename Op::Host* host, std::size_t lanes) {
  typename Op::Host whole[kStickElements<Op>];
  drain_stick<Op>(device, whole);
  std::memcpy(host, whole, lanes * sizeof(whole[0]));
}

template <class Op>
void to_sticks_with(const StickColumns& columns) {
  for (std::size_t row = 0; row < columns.rows; ++row) {
    for (std::size_t c = 0; c < columns.count; ++c) {
      const auto* host = reinterpret_cast<const typename Op::Host*>(columns.host[c] + row * columns.host_row_bytes);
      auto* device = reinterpret_cast<typename Op::Device*>(columns.device[c] + row * wire::kStickBytes);
      if (HWY_LIKELY(columns.lanes[c] == kStickElements<Op>)) {
        fill_stick<Op>(host, device);
      } else {
        fill_part<Op>(host, device, columns.lanes[c]);
      }
    }
  }
}

template <class Op>
void from_sticks_with(const StickColumns& columns) {
  for (std::size_t row = 0; row < columns.rows; ++row) {
    for (std::size_t c = 0; c < columns.count; ++c) {
      auto* host = reinterpret_cast<typename Op::Host*>(columns.host[c] + row * columns.host_row_bytes);
      const auto* device = reinterpret_cast<const typename Op::Device*>(columns.device[c] + row * wire::kStickBytes);
      if (HWY_LIKELY(columns.lanes[c] == kStickElements<Op>)) {
        drain_stick<Op>(device, host);
      } else {
        drain_part<Op>(device, host, columns.lanes[c]);
      }
    }
  }
}

template <class Op>
void convert_with(bool to_device, const void* from, void* to, std::size_t count) {
  using Host = typename Op::Host;
  using Device = typename Op::Device;
  constexpr std::size_t kStep = kStickElements<Op>;
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    if (to_device) {
      fill_stick<Op>(static_cast<const Host*>(from) + i, static_cast<Device*>(to) + i);
    } else {
      drain_stick<Op>(static_cast<const Device*>(from) + i, static_cast<Host*>(to) + i);
    }
  }
  if (i == count) return;
  if (to_device) {
    Device last[kStep];
    fill_part<Op>(static_cast<const Host*>(from) + i, last, count - i);
    std::memcpy(static_cast<Device*>(to) + i, last, (count - i) * sizeof(Device));
  } else {
    Device last[kStep] = {};
    std::memcpy(last, static_cast<const Device*>(from) + i, (count - i) * sizeof(Device));
    drain_part<Op>(last, static_cast<Host*>(to) + i, count - i);
  }
}

// Exported by name: Highway's tables hold plain functions.
void fp16_to_sticks(const StickColumns& c) { to_sticks_with<Fp16Dl16>(c); }
void fp16_from_sticks(const StickColumns& c) { from_sticks_with<Fp16Dl16>(c); }
void bf16_to_sticks(const StickColumns& c) { to_sticks_with<Bf16Dl16>(c); }
void bf16_from_sticks(const StickColumns& c) { from_sticks_with<Bf16Dl16>(c); }
void fp32_to_sticks(const StickColumns& c) { to_sticks_with<Fp32Dl16>(c); }
void fp32_from_sticks(const StickColumns& c) { from_sticks_with<Fp32Dl16>(c); }
void int64_to_sticks(const StickColumns& c) { to_sticks_with<Int64Int32>(c); }
void int64_from_sticks(const StickColumns& c) { from_sticks_with<Int64Int32>(c); }
void uint8_to_sticks(const StickColumns& c) { to_sticks_with<Uint8Uint32>(c); }
void uint8_from_sticks(const StickColumns& c) { from_sticks_with<Uint8Uint32>(c); }
void bool_to_sticks(const StickColumns& c) { to_sticks_with<BoolDl16>(c); }
void bool_from_sticks(const StickColumns& c) { from_sticks_with<BoolDl16>(c); }

void convert_array(Conversion conversion, bool to_device, const void* from, void* to, std::size_t count) {
  switch (conversion) {
    case Conversion::Fp16Dl16: return convert_with<Fp16Dl16>(to_device, from, to, count);
    case Conversion::Bf16Dl16: return convert_with<Bf16Dl16>(to_device, from, to, count);
    case Conversion::Fp32Dl16: return convert_with<Fp32Dl16>(to_device, from, to, count);
    case Conversion::Int64Int32: return convert_with<Int64Int32>(to_device, from, to, count);
    case Conversion::Uint8Uint32: return convert_with<Uint8Uint32>(to_device, from, to, count);
    case Conversion::BoolDl16: return convert_with<BoolDl16>(to_device, from, to, count);
    case Conversion::Copy1: std::memcpy(to, from, count); return;
    case Conversion::Copy2: std::memcpy(to, from, count * 2); return;
    case Conversion::Copy4: std::memcpy(to, from, count * 4); return;
  }
}

}  // namespace svp::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace svp::kernels {

HWY_EXPORT(fp16_to_sticks);
HWY_EXPORT(fp16_from_sticks);
HWY_EXPORT(bf16_to_sticks);
HWY_EXPORT(bf16_from_sticks);
HWY_EXPORT(fp32_to_sticks);
HWY_EXPORT(fp32_from_sticks);
HWY_EXPORT(int64_to_sticks);
HWY_EXPORT(int64_from_sticks);
HWY_EXPORT(uint8_to_sticks);
HWY_EXPORT(uint8_from_sticks);
HWY_EXPORT(bool_to_sticks);
HWY_EXPORT(bool_from_sticks);
HWY_EXPORT(convert_array);

namespace {

std::size_t copied_item(Conversion conversion) {
  return conversion == Conversion::Copy1 ? 1 : conversion == Conversion::Copy2 ? 2 : 4;
}

void copy_to_sticks(std::size_t item, const StickColumns& columns) {
  for (std::size_t row = 0; row < columns.rows; ++row) {
    for (std::size_t c = 0; c < columns.count; ++c) {
      std::byte* const device = columns.device[c] + row * wire::kStickBytes;
      const std::byte* const host = columns.host[c] + row * columns.host_row_bytes;
      const std::size_t bytes = columns.lanes[c] * item;
      if (bytes == wire::kStickBytes) {
        std::memcpy(device, host, wire::kStickBytes);  // a constant size becomes vector moves
      } else {
        std::memcpy(device, host, bytes);
        std::memset(device + bytes, 0, wire::kStickBytes - bytes);
      }
    }
  }
}

void copy_from_sticks(std::size_t item, const StickColumns& columns) {
  for (std::size_t row = 0; row < columns.rows; ++row) {
    for (std::size_t c = 0; c < columns.count; ++c) {
      const std::byte* const device = columns.device[c] + row * wire::kStickBytes;
      std::byte* const host = columns.host[c] + row * columns.host_row_bytes;
      const std::size_t bytes = columns.lanes[c] * item;
      if (bytes == wire::kStickBytes) {
        std::memcpy(host, device, wire::kStickBytes);
      } else {
        std::memcpy(host, device, bytes);
      }
    }
  }
}

}  // namespace

void to_sticks(Conversion conversion, const StickColumns& columns) {
  switch (conversion) {
    case Conversion::Fp16Dl16: return HWY_DYNAMIC_DISPATCH(fp16_to_sticks)(columns);
    case Conversion::Bf16Dl16: return HWY_DYNAMIC_DISPATCH(bf16_to_sticks)(columns);
    case Conversion::Fp32Dl16: return HWY_DYNAMIC_DISPATCH(fp32_to_sticks)(columns);
    case Conversion::Int64Int32: return HWY_DYNAMIC_DISPATCH(int64_to_sticks)(columns);
    case Conversion::Uint8Uint32: return HWY_DYNAMIC_DISPATCH(uint8_to_sticks)(columns);
    case Conversion::BoolDl16: return HWY_DYNAMIC_DISPATCH(bool_to_sticks)(columns);
    case Conversion::Copy1:
    case Conversion::Copy2:
    case Conversion::Copy4: return copy_to_sticks(copied_item(conversion), columns);
  }
}

void from_sticks(Conversion conversion, const StickColumns& columns) {
  switch (conversion) {
    case Conversion::Fp16Dl16: return HWY_DYNAMIC_DISPATCH(fp16_from_sticks)(columns);
    case Conversion::Bf16Dl16: return HWY_DYNAMIC_DISPATCH(bf16_from_sticks)(columns);
    case Conversion::Fp32Dl16: return HWY_DYNAMIC_DISPATCH(fp32_from_sticks)(columns);
    case Conversion::Int64Int32: return HWY_DYNAMIC_DISPATCH(int64_from_sticks)(columns);
    case Conversion::Uint8Uint32: return HWY_DYNAMIC_DISPATCH(uint8_from_sticks)(columns);
    case Conversion::BoolDl16: return HWY_DYNAMIC_DISPATCH(bool_from_sticks)(columns);
    case Conversion::Copy1:
    case Conversion::Copy2:
    case Conversion::Copy4: return copy_from_sticks(copied_item(conversion), columns);
  }
}

void convert(Conversion conversion, bool to_device, const void* from, void* to, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(convert_array)(conversion, to_device, from, to, count);
}

}  // namespace svp::kernels
#endif
