// SPDX-License-Identifier: Apache-2.0
// Gather and Scatter: an element of the index operand says how many pages further the stick of an indirect operand
// lies. Each index is checked when it is used. The compute array copies rows of sticks whose indices the engine has
// checked.
#include <algorithm>

#include "firmware/kernels/array_request.hpp"
#include "firmware/kernels/engine/axes.hpp"
#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/splat.hpp"

namespace kernel::engine {
namespace {

// What the compute array copies: rows of sticks at equal distances, all of one row by the same index.
struct IndexedRows {
  Combinations rows;
  std::uint32_t sticks;  // of each
  std::uint64_t step[program::kMaxOperands];
};

struct Lists {
  std::uint64_t from[wire::array::kMaxCopies];
  std::uint64_t to[wire::array::kMaxCopies];
};
static_assert(sizeof(Lists) <= kWorkingBytes);

constexpr std::uint64_t kFewestForArray = 8;  // sticks

class Indexed {
 public:
  // `indirect`: the operand that the index leads into; `other` is copied to it or from it.
  Indexed(const Work& work, unsigned indirect)
      : work_(work),
        axes_(work),
        copies_(work, axes_),
        indirect_(indirect),
        limit_(bytes_of_base()),
        start_(start_in_base()) {
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
    if (work_.array != nullptr && end - first >= kFewestForArray && suits_array()) return by_array(sticks, first, end);
    return by_engine(sticks, first, end);
  }

 private:
  Refusal by_engine(const Combinations& sticks, std::uint64_t first, std::uint64_t end) const {
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

  // The array copies in the same order. The rows of a request are found before it copies any: by indices that are not
  // among what it writes.
  bool suits_array() const {
    return !spreads_ && copies_.count == 1 && (end_of(0) <= axes_.base(2) || end_of(2) <= axes_.base(0));
  }

  // Whole rows by the array; what it has not done, and the rest, by the engine.
  Refusal by_array(const Combinations& sticks, std::uint64_t first, std::uint64_t end) const {
    const IndexedRows rows = rows_of(sticks);
    std::uint64_t row = (first + rows.sticks - 1) / rows.sticks;
    const std::uint64_t begin = std::min(end, row * rows.sticks);
    if (const Refusal bad = by_engine(sticks, first, begin); !bad.ok()) return bad;
    const std::uint64_t most = wire::array::kMaxCopies / rows.sticks;
    const std::uint64_t last = end / rows.sticks;
    while (row < last) {
      const std::uint32_t count = collect(rows, row, std::min(most, last - row));
      if (count == 0 || !ask(rows, count)) break;
      row += count;
    }
    return by_engine(sticks, std::max(begin, std::min(end, row * rows.sticks)), end);
  }

  // As many of the rows from `first` on as have an index that leads inside.
  std::uint32_t collect(const IndexedRows& rows, std::uint64_t first, std::uint64_t most) const {
    auto& lists = reinterpret_cast<Lists&>(work_.working);
    const std::uint64_t row_bytes = (rows.sticks - 1) * rows.step[indirect_];
    std::uint32_t count = 0;
    for (; count < most; ++count) {
      std::uint64_t at = axes_.base(0);
      std::uint64_t from = axes_.base(1);
      std::uint64_t to = axes_.base(2);
      std::uint64_t offset = start_ + row_bytes;
      rows.rows.for_each(first + count, [&](unsigned d, std::uint32_t n) {
        at += axes_.of(0, d).element(n);
        from += axes_.of(1, d).stick(n);
        to += axes_.of(2, d).stick(n);
        offset += axes_.of(indirect_, d).in_part(n);
      });
      std::uint64_t pages = 0;
      if (!leads_inside(offset, load_element(at, sizeof(std::uint32_t)), pages)) break;
      (indirect_ == 1 ? from : to) += pages;
      lists.from[count] = from;
      lists.to[count] = to;
    }
    return count;
  }

  bool ask(const IndexedRows& rows, std::uint32_t count) const {
    const auto& lists = reinterpret_cast<const Lists&>(work_.working);
    auto& request = reinterpret_cast<wire::array::CopiesRequest&>(*work_.array);
    request.kind = wire::array::Kind::Copies;
    request.rows = count;
    request.sticks = rows.sticks;
    request.from_list = reinterpret_cast<std::uint64_t>(lists.from);
    request.to_list = reinterpret_cast<std::uint64_t>(lists.to);
    request.from_step = rows.step[1];
    request.to_step = rows.step[2];
    return is_done_by_array(*work_.array);
  }

  // Along the dimension that changes fastest, when the index does not depend on it; else single sticks.
  IndexedRows rows_of(const Combinations& sticks) const {
    const IndexedRows single{.rows = sticks, .sticks = 1, .step = {}};
    if (!sticks.has_dimensions()) return single;
    const Combinations::Dimension along = sticks.fastest();
    if (along.steps > wire::array::kMaxCopies || axes_.moves(0, along.d)) return single;
    IndexedRows rows{.rows = sticks.without_fastest(), .sticks = static_cast<std::uint32_t>(along.steps), .step = {}};
    for (unsigned o = 1; o <= 2; ++o) {
      const Axis& axis = axes_.of(o, along.d);
      if (axis.part != 0 || along.unit % (1u << axis.lane_bits) != 0) return single;
      rows.step[o] = (along.unit >> axis.lane_bits) * axis.stride;
    }
    return rows;
  }

  // Behind the last byte that the operand may have; of the indirect one, wherever an index may lead.
  std::uint64_t end_of(unsigned o) const {
    std::uint64_t end = axes_.base(o) + wire::kStickBytes + (o == indirect_ ? limit_ - start_ : 0);
    for (unsigned d = 0; d < axes_.rank(); ++d) {
      const Axis& axis = axes_.of(o, d);
      const std::uint32_t last = axes_.extent(d) - 1;
      end += axis.stick(last) - (o == indirect_ ? axis.in_part(last) : 0);
    }
    return end;
  }

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

  // In its base, behind the first stick of the indirect operand.
  std::uint64_t start_in_base() const {
    const Operand& operand = work_.operation.operand[indirect_];
    std::uint64_t offset = operand.offset + wire::kStickBytes;
    for (unsigned l = 0; l < work_.depth; ++l) offset += operand.loop_stride[l] * work_.iteration[l];
    return offset;
  }

  bool page_offset(const Combinations& sticks, std::uint64_t number, std::uint32_t value, std::uint64_t& pages) const {
    std::uint64_t offset = start_;
    sticks.for_each(number, [&](unsigned d, std::uint32_t n) { offset += axes_.of(indirect_, d).in_part(n); });
    return leads_inside(offset, value, pages);
  }
  // `offset`: in the base, behind what is reached by index 0. A negative INT32 leads outside, as a large number does.
  bool leads_inside(std::uint64_t offset, std::uint32_t value, std::uint64_t& pages) const {
    if (work_.operation.operand[0].format == program::Format::Int32 && value >> 31 != 0) return false;
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
  std::uint64_t start_;
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
