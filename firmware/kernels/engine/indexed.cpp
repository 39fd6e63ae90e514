// SPDX-License-Identifier: Apache-2.0
// Gather and Scatter: an element of the index operand says how many pages further the stick of an indirect operand
// lies. Each index is checked when it is used.
#include "firmware/kernels/engine/axes.hpp"
#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/splat.hpp"

namespace kernel::engine {
namespace {

class Indexed {
 public:
  // `indirect`: the operand that the index leads into; `other` is copied to it or from it.
  Indexed(const Work& work, unsigned indirect)
      : work_(work), axes_(work), copies_(work, axes_), indirect_(indirect), limit_(bytes_of_base()) {
    const Operand& input = work.operation.operand[1];
    const Operand& output = work.output();
    spreads_ = input.stick_dim == program::kNoDimension;
    if (!spreads_ && input.stick_dim != output.stick_dim) refusal_ = work.refuse(Where::Unsupported, 1);
    if (program::item_bytes(input.format) != program::item_bytes(output.format)) {
      refusal_ = work.refuse(Where::Format, 1);
    }
  }

  const Axes& axes() const { return axes_; }

  // All combinations first … end - 1.
  Refusal run(const Combinations& sticks, std::uint64_t first, std::uint64_t end) const {
    if (!refusal_.ok()) return refusal_;
    for (std::uint64_t i = first; i < end; ++i) {
      const std::uint32_t index = index_of(sticks, i);
      std::uint64_t pages = 0;
      if (!page_offset(sticks, i, index, pages)) {
        return {Where::Index, static_cast<std::uint8_t>(indirect_), work_.number, index};
      }
      const bool reads = indirect_ == 1;
      copy(axes_.base(1) + sticks.stick(axes_, 1, i) + (reads ? pages : 0),
           axes_.base(2) + first_copy(sticks, i) + (reads ? 0 : pages));
    }
    return {};
  }

 private:
  std::uint64_t bytes_of_base() const {
    const Operand& operand = work_.operation.operand[indirect_];
    switch (operand.base) {
      case program::Base::Argument: return work_.arguments[operand.argument].bytes;
      case program::Base::Data: return work_.header.data_bytes;
      case program::Base::Pool: return work_.header.pool_bytes;
      case program::Base::Scratchpad: return work_.header.scratchpad_bytes;
      case program::Base::Tables: break;  // of functions only
      case program::Base::None: break;
    }
    return 0;
  }

  std::uint32_t index_of(const Combinations& sticks, std::uint64_t number) const {
    return load_element(axes_.base(0) + sticks.element(axes_, 0, number), sizeof(std::uint32_t));
  }

  // False: the index leads outside. A negative INT32 does, as a large number.
  bool page_offset(const Combinations& sticks, std::uint64_t number, std::uint32_t value, std::uint64_t& pages) const {
    if (work_.operation.operand[0].format == program::Format::Int32 && value >> 31 != 0) return false;
    const Operand& operand = work_.operation.operand[indirect_];
    std::uint64_t offset = operand.offset + wire::kStickBytes;
    for (unsigned l = 0; l < work_.depth; ++l) offset += operand.loop_stride[l] * work_.iteration[l];
    sticks.for_each(number, [&](unsigned d, std::uint32_t n) { offset += axes_.of(indirect_, d).in_part(n); });
    return !__builtin_mul_overflow(value, work_.operation.page, &pages) && offset <= limit_ && pages <= limit_ - offset;
  }

  // Of the output: a Scatter visits dimensions that it has not, and may have copies along.
  std::uint64_t first_copy(const Combinations& sticks, std::uint64_t number) const {
    std::uint64_t bytes = 0;
    sticks.for_each(number, [&](unsigned d, std::uint32_t n) {
      if ((work_.output().present >> d & 1) != 0) bytes += axes_.of(2, d).stick(n);
    });
    return bytes;
  }

  void copy(std::uint64_t from, std::uint64_t to) const {
    const auto* source = reinterpret_cast<const void*>(from);
    for (unsigned i = 0; i < copies_.count; ++i) {
      auto* const target = reinterpret_cast<void*>(to + copies_.offset[i]);
      if (spreads_) {
        splat(source, target, program::item_bytes(work_.output().format));
      } else {
        store_register(target, load_stick(source));
      }
    }
  }

  const Work& work_;
  Axes axes_;
  Copies copies_;
  unsigned indirect_;
  std::uint64_t limit_;
  bool spreads_ = false;
  Refusal refusal_;
};

}  // namespace

Refusal gather(const Work& work) {
  const Indexed indexed(work, 1);
  const Combinations sticks = output_sticks(work, indexed.axes(), 0);
  const CoreShare share(work, sticks.total());
  return indexed.run(sticks, share.first, share.end);
}

// In ascending order, the last dimension fastest, on one core: of several with the same index the last one stays.
Refusal scatter(const Work& work) {
  const Indexed indexed(work, 2);
  const Operand& output = work.output();
  const unsigned present = work.operation.operand[0].present | work.operation.operand[1].present | output.present;
  Combinations sticks;
  for (unsigned d = indexed.axes().rank(); d-- > 0;) {
    const std::uint32_t unit = d == output.stick_dim ? program::lanes_of(output.format) : 1;
    if ((present >> d & 1) != 0) sticks.add(d, indexed.axes().extent(d), unit);
  }
  return indexed.run(sticks, 0, work.core == 0 ? sticks.total() : 0);
}

}  // namespace kernel::engine
