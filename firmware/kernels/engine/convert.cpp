// SPDX-License-Identifier: Apache-2.0
// Copy into another format, value by value. Positions that the input has no lane for become 0: the sticks of the two
// formats hold different numbers of elements.
#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/engine/convert_array.hpp"
#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/masks.hpp"
#include "firmware/kernels/engine/number.hpp"
#include "firmware/kernels/engine/number_row.hpp"
#include "firmware/kernels/engine/splat.hpp"

namespace kernel::engine {
namespace {

using program::Format;

class Conversion {
 public:
  explicit Conversion(const Work& work)
      : work_(work),
        from_(work.operation.operand[0]),
        to_(work.output()),
        along_(to_.stick_dim),
        // Both without a stick dimension, or an input that is the same in all lanes.
        input_lanes_(from_.stick_dim == program::kNoDimension ? 1 : program::lanes_of(from_.format)),
        output_lanes_(program::lanes_of(to_.format)),
        unit_(along_ == program::kNoDimension ? 1 : std::max(input_lanes_, output_lanes_)),
        by_array_(work) {}

  Refusal run() {
    std::uint32_t units[kMaxRank];
    for (unsigned d = 0; d < kMaxRank; ++d) units[d] = d == along_ ? unit_ : 1;
    const LoopNest nest(work_, units);
    if (nest.refusal().ok()) {
      by_units(nest);
    } else {
      for_each_output_stick(work_, [this](const Index& first) { stick(first); });
    }
    return {};
  }

 private:
  std::uint32_t converted(std::uint32_t code) const {
    return number::code_of(to_.format, number::value_of(from_.format, code));
  }
  bool is_splat() const { return input_lanes_ == 1; }

  void by_units(const LoopNest& nest) {
    const Box share = nest.share();
    if (along_ == program::kNoDimension) {
      nest.for_each_run(share, [this](const Run& run) { units(run, 1); });
      return;
    }
    const std::uint32_t whole = work_.operation.extent[along_] / unit_;
    const std::uint32_t rest = work_.operation.extent[along_] % unit_;
    nest.for_each_run(part_of(share, along_, 0, whole), [this](const Run& run) { units(run, unit_); });
    nest.for_each_run(part_of(share, along_, whole, whole + 1), [this, rest](const Run& run) { units(run, rest); });
  }

  // Units of which the first `positions` are inside of the extent.
  void units(const Run& run, std::uint32_t positions) {
    for (std::uint64_t n = by_array_.given(run, sticks_of(positions)); n < run.count; ++n) {
      unit(run.address[0] + n * run.step[0], run.address[1] + n * run.step[1], positions);
    }
  }

  UnitSticks sticks_of(std::uint32_t positions) const {
    if (is_splat()) return {.from = 1, .to = 1, .from_step = 0, .to_step = 0, .single = true};
    return {.from = (positions + input_lanes_ - 1) / input_lanes_,
            .to = (positions + output_lanes_ - 1) / output_lanes_,
            .from_step = from_.stride[along_],
            .to_step = to_.stride[along_],
            .single = false};
  }

  void unit(std::uint64_t from, std::uint64_t to, std::uint32_t positions) {
    if (positions == unit_ && from_.format == Format::Dl16 && to_.format == Format::Fp32 && !is_splat()) {
      return widen(from, to);
    }
    if (positions == unit_ && from_.format == Format::Fp32 && to_.format == Format::Dl16 && !is_splat()) {
      return narrow(from, to);
    }
    const std::uint64_t from_step = is_splat() ? 0 : from_.stride[along_];
    const std::uint64_t to_step = along_ == program::kNoDimension ? 0 : to_.stride[along_];
    const std::uint32_t input_sticks = is_splat() ? 1 : (positions + input_lanes_ - 1) / input_lanes_;
    for (std::uint32_t p = 0; p < positions; p += output_lanes_) {
      lanes(from, from_step, input_sticks, p, to + p / output_lanes_ * to_step);
    }
  }

  // One stick of the output, from position `first` of a unit on.
  void lanes(std::uint64_t from, std::uint64_t step, std::uint32_t sticks, std::uint32_t first, std::uint64_t to) {
    const unsigned from_bytes = program::item_bytes(from_.format);
    const unsigned to_bytes = program::item_bytes(to_.format);
    if (is_splat()) {
      const std::uint32_t code = converted(load_element(from, from_bytes));
      splat(&code, reinterpret_cast<void*>(to), to_bytes);
      return;
    }
    const std::uint32_t count = std::min(input_lanes_, output_lanes_);
    for (std::uint32_t lane = 0; lane < output_lanes_; lane += count) {
      const std::uint32_t stick = (first + lane) / input_lanes_;
      const std::uint64_t at = from + stick * step + std::uint64_t{(first + lane) % input_lanes_} * from_bytes;
      auto* const results = reinterpret_cast<std::byte*>(to + lane * to_bytes);
      if (stick < sticks) {
        number::convert_row(from_.format, reinterpret_cast<const void*>(at), to_.format, results, count);
      } else {
        std::fill_n(results, count * to_bytes, std::byte{0});
      }
    }
  }

  // 64 positions: one stick of DL16 and two of fp32.
  void widen(std::uint64_t from, std::uint64_t to) {
    const vuint16m1_t codes = load_stick(reinterpret_cast<const void*>(from));
    const vint32m2_t wide = __riscv_vreinterpret_v_u32m2_i32m2(__riscv_vzext_vf2_u32m2(codes, kVector16));
    store_register(reinterpret_cast<void*>(to), dl16::to_fp32(__riscv_vget_v_i32m2_i32m1(wide, 0)));
    store_register(reinterpret_cast<void*>(to + to_.stride[along_]),
                   dl16::to_fp32(__riscv_vget_v_i32m2_i32m1(wide, 1)));
  }
  void narrow(std::uint64_t from, std::uint64_t to) {
    const vint32m1_t low = dl16::from_fp32(load_words(reinterpret_cast<const void*>(from)));
    const vint32m1_t high = dl16::from_fp32(load_words(reinterpret_cast<const void*>(from + from_.stride[along_])));
    const vuint32m2_t both = __riscv_vcreate_v_u32m1_u32m2(__riscv_vreinterpret_v_i32m1_u32m1(low),
                                                           __riscv_vreinterpret_v_i32m1_u32m1(high));
    store_register(reinterpret_cast<void*>(to), __riscv_vnsrl_wx_u16m1(both, 0, kVector16));
  }

  // Where the two formats are cut into parts at different places.
  void stick(const Index& first) {
    const unsigned from_bytes = program::item_bytes(from_.format);
    const unsigned to_bytes = program::item_bytes(to_.format);
    const std::uint64_t to = address_of(work_, to_, first);
    const std::uint64_t end = wire::align_up(std::uint64_t{work_.operation.extent[along_]}, input_lanes_);
    for (std::uint32_t lane = 0; lane < output_lanes_; ++lane) {
      Index from = input_index(work_, first);
      from.of[along_] += lane;
      const bool has_lane = is_splat() || from.of[along_] < end;
      const std::uint32_t code = has_lane ? converted(load_element(address_of(work_, from_, from), from_bytes)) : 0;
      store_element(to + lane * to_bytes, to_bytes, code);
    }
  }

  const Work& work_;
  const Operand& from_;
  const Operand& to_;
  std::uint8_t along_;
  std::uint32_t input_lanes_;
  std::uint32_t output_lanes_;
  std::uint32_t unit_;
  UnitsByArray by_array_;
};

// Units and sticks of the output may be shared out differently, so one core does both.
Refusal convert_with_masks(const Work& work) {
  if (work.core != 0) return {};
  Work alone = work;
  alone.cores = 1;
  const Refusal refusal = Conversion(alone).run();
  const LoopNest nest(alone, StickUnits(work.output()).elements, work.inputs());
  if (refusal.ok()) write_masks(alone, nest, nest.whole());
  return refusal;
}

}  // namespace

Refusal convert(const Work& work) {
  return work.operation.mask_count == 0 ? Conversion(work).run() : convert_with_masks(work);
}

}  // namespace kernel::engine
