// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/loop_transfer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "host_driver/frontend/stick_buffer.hpp"
#include "host_driver/frontend/stick_converter.hpp"
#include "host_driver/frontend/strided_path.hpp"
#include "host_driver/tensor/strided_copy.hpp"

namespace svp {
namespace {

constexpr std::int64_t kMostIndex = std::int64_t{1} << 62;
constexpr std::size_t kMostRuns = 512;  // control blocks of a read

[[noreturn]] void refuse_loops(const std::string& what) {
  throw InvalidArgument("loops", "loops: " + what, "check sizes, strides and offsets of the transfer");
}

using Strides = std::vector<std::int64_t> StridedLoops::*;
using Offset = std::int64_t StridedLoops::*;

// One more than the largest index of this side; 0: the nest moves nothing.
std::int64_t indices_of(const StridedLoops& nest, Strides strides, Offset offset) {
  std::int64_t last = nest.*offset;
  if (last < 0) refuse_loops("a negative offset");
  for (std::size_t i = 0; i < nest.size.size(); ++i) {
    const std::int64_t size = nest.size[i];
    const std::int64_t stride = (nest.*strides)[i];
    if (size < 0 || stride < 0) refuse_loops("a negative size or stride");
    if (size == 0) return 0;
    std::int64_t reach;
    if (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last) ||
        last >= kMostIndex) {
      refuse_loops("an index of 2^62 or more");
    }
  }
  return last + 1;
}

std::uint64_t bytes_for(std::int64_t indices, ElementFormat format) {
  return (static_cast<std::uint64_t>(indices) * bits_of(format) + 7) / 8;
}

// A transfer that has been checked.
class Checked {
 public:
  Checked(LoopTransfer transfer, TransferDirection direction) : transfer_(std::move(transfer)), direction_(direction) {
    const bool to_card = direction == TransferDirection::ToDevice;
    const auto from = to_card ? transfer_.host_format : transfer_.card_format;
    const auto to = to_card ? transfer_.card_format : transfer_.host_format;
    if (conversion(from, to) == nullptr) {
      throw InvalidArgument(
          "format", "format: there is no conversion from " + std::string(name(from)) + " to " + std::string(name(to)),
          "take one of the pairs of docs/tensors.md, Conversions of a copy");
    }
    measure();
    move_to_memory();
  }

  bool empty() const { return transfer_.nests.empty(); }
  const std::vector<StridedLoops>& nests() const { return transfer_.nests; }
  HostSide host() const { return {transfer_.host_format, {transfer_.host, host_bytes_}}; }
  CardSide card() const { return {transfer_.card_format, eps(), transfer_.memory}; }
  LoopSide card_side() const {
    return direction_ == TransferDirection::ToDevice ? LoopSide::Destination : LoopSide::Source;
  }
  std::int64_t eps() const { return static_cast<std::int64_t>(wire::kStickBytes * 8 / bits_of(transfer_.card_format)); }
  std::int64_t element_count() const { return elements_; }
  // Of the same memories, some of the nests.
  Checked part(std::vector<StridedLoops> nests) const {
    Checked some(*this);
    some.transfer_.nests = std::move(nests);
    some.elements_ = 0;
    for (const StridedLoops& nest : some.nests()) some.elements_ += nest.element_count();
    return some;
  }

 private:
  Offset card_offset() const {
    return card_side() == LoopSide::Source ? &StridedLoops::src_offset : &StridedLoops::dst_offset;
  }

  void measure() {
    auto& nests = transfer_.nests;
    std::int64_t host_indices = 0;
    std::int64_t card_indices = 0;
    for (const StridedLoops& nest : nests) {
      const std::size_t depth = nest.size.size();
      if (nest.src_stride.size() != depth || nest.dst_stride.size() != depth) {
        refuse_loops("lists of different lengths");
      }
      const std::int64_t source = indices_of(nest, &StridedLoops::src_stride, &StridedLoops::src_offset);
      const std::int64_t destination = indices_of(nest, &StridedLoops::dst_stride, &StridedLoops::dst_offset);
      const bool from_host = card_side() == LoopSide::Destination;
      host_indices = std::max(host_indices, from_host ? source : destination);
      card_indices = std::max(card_indices, from_host ? destination : source);
      std::int64_t count = 1;
      for (const std::int64_t size : nest.size) {
        if (__builtin_mul_overflow(count, size, &count)) refuse_loops("2^62 elements or more");
      }
      if (__builtin_add_overflow(elements_, count, &elements_) || elements_ >= kMostIndex) {
        refuse_loops("2^62 elements or more");
      }
    }
    std::erase_if(nests, [](const StridedLoops& nest) { return std::ranges::find(nest.size, 0) != nest.size.end(); });
    host_bytes_ = bytes_for(host_indices, transfer_.host_format);
    if (host_bytes_ != 0 && transfer_.host == nullptr) {
      throw InvalidArgument("host", "host: no memory", "give the address of the tensor's first element");
    }
    if (const auto needed = bytes_for(card_indices, transfer_.card_format); needed > transfer_.bytes) {
      refuse_loops("they reach over " + std::to_string(needed) + " bytes of the card, the address has " +
                   std::to_string(transfer_.bytes));
    }
  }

  // Indices count from the allocation's beginning afterwards.
  void move_to_memory() {
    const auto sticks = static_cast<std::int64_t>(transfer_.offset / wire::kStickBytes);
    for (StridedLoops& nest : transfer_.nests) nest.*card_offset() += sticks * eps();
  }

  LoopTransfer transfer_;
  TransferDirection direction_;
  std::size_t host_bytes_ = 0;
  std::int64_t elements_ = 0;
};

void launch_loops(FlexStream& stream, std::vector<Step> steps, std::shared_ptr<const void> keep_alive,
                  LaunchObserver* observer = nullptr) {
  stream.Launch(Job(JobPlan(std::move(steps))), {}, {.observer = observer, .keep_alive = std::move(keep_alive)});
}

// The elements one after the other in pinned memory, in the card's format and in the order of the loops, for the card's
// strided DMA.
struct Packed {
  PinnedBuffer memory;
  std::vector<StridedLoops> host;  // between the host and the packed elements
  std::vector<Step> steps;         // between these and the card
};

// Null: elements of less than a byte, no pinned memory, or more blocks than are worth it.
std::shared_ptr<Packed> pack(Runtime& runtime, const Checked& transfer) {
  const std::size_t bits = bits_of(transfer.card().format);
  if (bits < 8) return nullptr;
  const std::size_t item = bits / 8;
  const auto bytes = static_cast<std::uint64_t>(transfer.element_count()) * item;
  if (bytes > largest_pinned(runtime.host_memory())) return nullptr;
  auto pinned = runtime.host_memory().try_allocate(bytes);
  if (!pinned) return nullptr;
  auto packed = std::make_shared<Packed>();
  std::vector<StridedLoops> card;
  const bool to_card = transfer.card_side() == LoopSide::Destination;
  std::int64_t first = 0;
  for (const StridedLoops& nest : transfer.nests()) {
    StridedLoops outside = nest;  // host and packed elements
    StridedLoops inside = nest;   // packed elements and card
    std::int64_t step = 1;
    for (std::size_t i = 0; i < nest.size.size(); ++i) {
      (to_card ? outside.dst_stride : outside.src_stride)[i] = step;
      (to_card ? inside.src_stride : inside.dst_stride)[i] = step;
      step *= nest.size[i];
    }
    (to_card ? outside.dst_offset : outside.src_offset) = first;
    (to_card ? inside.src_offset : inside.dst_offset) = first;
    first += step;
    packed->host.push_back(std::move(outside));
    card.push_back(std::move(inside));
  }
  const PinnedPlace here{pinned->data(), pinned->size()};
  const CardPlace there{transfer.card().tensor};
  auto steps = to_card ? strided_steps(runtime.allocator(), card, here, there, item)
                       : strided_steps(runtime.allocator(), card, there, here, item);
  if (!steps) return nullptr;
  packed->memory = std::move(*pinned);
  packed->steps = *std::move(steps);
  return packed;
}

// What a launch keeps.
struct Kept {
  std::shared_ptr<const void> memory;
  std::shared_ptr<const void> callers;
};
std::shared_ptr<const Kept> kept(std::shared_ptr<const void> memory, std::shared_ptr<const void> callers) {
  return std::make_shared<const Kept>(std::move(memory), std::move(callers));
}

// ---- to the card ----------------------------------------------------------------------------------------------------

// Every element of these sticks is named.
void write_named_sticks(Runtime& runtime, FlexStream& stream, const Checked& transfer,
                        const std::vector<StickRun>& runs, const std::shared_ptr<const void>& keep_alive) {
  const auto buffer = StickBuffer::pinned(runtime.host_memory(), runs);
  if (buffer == nullptr) {
    const auto converter =
        std::make_shared<StickConverter>(transfer.nests(), runs, Direction::ToDevice, transfer.host(), transfer.card());
    const auto task = stream.host_work().make(stream, 0, [converter] { converter->require_converted(); });
    launch_loops(stream, converter->steps(), task, task.get());
    task->wait();  // bounded: the launch ends as FlexStream::Synchronize() says
    return;
  }
  copy_strided(buffer->loops_here(transfer.nests(), LoopSide::Destination, transfer.eps()), transfer.host().format,
               transfer.host().memory, transfer.card().format, buffer->bytes());
  runtime.transfer_counters().add_copied(bytes_of(runs));
  launch_loops(stream, buffer->transfers(runs, transfer.card().tensor, Direction::ToDevice), kept(buffer, keep_alive));
}

void write_packed(Runtime& runtime, FlexStream& stream, const Checked& transfer, const std::shared_ptr<Packed>& packed,
                  const std::shared_ptr<const void>& keep_alive) {
  copy_strided(packed->host, transfer.host().format, transfer.host().memory, transfer.card().format,
               packed->memory.bytes());
  runtime.transfer_counters().add_copied(packed->memory.size());
  launch_loops(stream, packed->steps, kept(packed, keep_alive));
}

// Reads the sticks, changes what the loops name, and writes them.
void change_sticks(Runtime& runtime, FlexStream& stream, const Checked& transfer, const std::vector<StickRun>& runs,
                   const std::shared_ptr<const void>& keep_alive) {
  const auto buffer = StickBuffer::any(runtime.host_memory(), runs);
  launch_loops(stream, buffer->transfers(runs, transfer.card().tensor, Direction::FromDevice), buffer);
  stream.Synchronize();
  copy_strided(buffer->loops_here(transfer.nests(), LoopSide::Destination, transfer.eps()), transfer.host().format,
               transfer.host().memory, transfer.card().format, buffer->bytes());
  runtime.transfer_counters().add_copied(bytes_of(runs));
  launch_loops(stream, buffer->transfers(runs, transfer.card().tensor, Direction::ToDevice), kept(buffer, keep_alive));
}

// Every loop steps over all that the loops inside of it name. What is no such nest may name an element twice.
bool names_each_once(const StridedLoops& nest) {
  std::vector<std::pair<std::int64_t, std::int64_t>> loops;  // stride, size
  for (std::size_t i = 0; i < nest.size.size(); ++i) {
    if (nest.size[i] > 1) loops.emplace_back(nest.dst_stride[i], nest.size[i]);
  }
  std::ranges::sort(loops);
  std::int64_t reach = 0;
  for (const auto& [stride, size] : loops) {
    if (stride <= reach) return false;
    reach += (size - 1) * stride;  // below 2^62: the indices are
  }
  return true;
}

// Elements that are named several times make a stick look full that is not.
bool fills_exactly(const Checked& transfer, std::span<const StickRun> runs) {
  if (!std::ranges::all_of(transfer.nests(), names_each_once)) return false;
  return static_cast<std::uint64_t>(transfer.element_count()) * bits_of(transfer.card().format) == bytes_of(runs) * 8;
}

// Whether every stick that the nest comes to is named as a whole, by its form: it may be one and not look so.
bool has_whole_sticks(const StridedLoops& nest, std::int64_t eps) {
  bool filled = false;
  for (std::size_t i = 0; i < nest.size.size(); ++i) {
    if (nest.size[i] == 1) continue;
    if (nest.dst_stride[i] == 1 && nest.size[i] % eps == 0) {
      filled = true;
    } else if (nest.dst_stride[i] % eps != 0) {
      return false;
    }
  }
  return filled && nest.dst_offset % eps == 0;
}

// Nests that fill their sticks, and others: of a matrix whose last column of sticks is not full. The card moves what
// fills sticks by linear DMA while the host makes the rest ready for the strided one. False: nothing was moved.
bool write_sticks_and_rest(Runtime& runtime, FlexStream& stream, const Checked& transfer,
                           const std::shared_ptr<const void>& keep_alive) {
  std::vector<StridedLoops> whole;
  std::vector<StridedLoops> rest;
  for (const StridedLoops& nest : transfer.nests()) {
    (has_whole_sticks(nest, transfer.eps()) ? whole : rest).push_back(nest);
  }
  const Checked sticks = transfer.part(std::move(whole));
  const Checked others = transfer.part(std::move(rest));
  if (sticks.empty() || others.empty()) return false;
  const auto runs = sticks_of(sticks.nests(), LoopSide::Destination, sticks.eps()).all;
  if (!fills_exactly(sticks, runs)) return false;
  const auto packed = pack(runtime, others);
  if (packed == nullptr) return false;
  write_named_sticks(runtime, stream, sticks, runs, keep_alive);
  write_packed(runtime, stream, others, packed, keep_alive);
  return true;
}

// ---- from the card --------------------------------------------------------------------------------------------------

std::vector<StickRun> runs_of_read(std::vector<StickRun> runs) {
  for (std::int64_t gap = 1; runs.size() > kMostRuns; gap *= 2) runs = joined(runs, gap);
  return runs;
}

// What is transferred, and what is then done with it.
struct Reading {
  std::vector<Step> steps;
  std::uint64_t bytes = 0;  // held until then
  std::function<void()> convert;
};

// Without steps: it can not.
Reading read_packed(Runtime& runtime, const Checked& transfer) {
  const auto packed = pack(runtime, transfer);
  if (packed == nullptr) return {};
  return {.steps = packed->steps,
          .bytes = packed->memory.size(),
          .convert = [&counters = runtime.transfer_counters(), packed, host = transfer.host(), card = transfer.card()] {
            copy_strided(packed->host, card.format, packed->memory.bytes(), host.format, host.memory);
            counters.add_copied(packed->memory.size());
          }};
}

Reading read_named_sticks(Runtime& runtime, const Checked& transfer, const std::vector<StickRun>& runs) {
  const auto buffer = StickBuffer::pinned(runtime.host_memory(), runs);
  if (buffer == nullptr) {
    const auto converter = std::make_shared<StickConverter>(transfer.nests(), runs, Direction::FromDevice,
                                                            transfer.host(), transfer.card());
    return {.steps = converter->steps(), .convert = [converter] { converter->require_converted(); }};
  }
  return {.steps = buffer->transfers(runs, transfer.card().tensor, Direction::FromDevice),
          .bytes = buffer->bytes().size(),
          .convert = [&counters = runtime.transfer_counters(), buffer, host = transfer.host(), card = transfer.card(),
                      bytes = bytes_of(runs),
                      here = buffer->loops_here(transfer.nests(), LoopSide::Source, transfer.eps())] {
            copy_strided(here, card.format, buffer->bytes(), host.format, host.memory);
            counters.add_copied(bytes);
          }};
}

}  // namespace

std::uint64_t host_bytes_of(const LoopTransfer& transfer, TransferDirection direction) {
  const bool to_card = direction == TransferDirection::ToDevice;
  std::int64_t indices = 0;
  for (const StridedLoops& nest : transfer.nests) {
    const Strides strides = to_card ? &StridedLoops::src_stride : &StridedLoops::dst_stride;
    if ((nest.*strides).size() != nest.size.size()) refuse_loops("lists of different lengths");
    indices =
        std::max(indices, indices_of(nest, strides, to_card ? &StridedLoops::src_offset : &StridedLoops::dst_offset));
  }
  return bytes_for(indices, transfer.host_format);
}

void copy_to_card(Runtime& runtime, FlexStream& stream, LoopTransfer transfer,
                  const std::shared_ptr<const void>& keep_alive) {
  stream.refuse_in_capture("a copy between a tensor and memory of the host");
  const Checked checked(std::move(transfer), TransferDirection::ToDevice);
  if (checked.empty()) return;
  const StickRuns runs = sticks_of(checked.nests(), LoopSide::Destination, checked.eps());
  if (runs.partial.empty() && fills_exactly(checked, runs.all)) {
    return write_named_sticks(runtime, stream, checked, runs.all, keep_alive);
  }
  if (write_sticks_and_rest(runtime, stream, checked, keep_alive)) return;
  if (const auto packed = pack(runtime, checked)) return write_packed(runtime, stream, checked, packed, keep_alive);
  change_sticks(runtime, stream, checked, runs.all, keep_alive);
}

std::shared_ptr<HostTask> copy_from_card(Runtime& runtime, FlexStream& stream, LoopTransfer transfer,
                                         std::shared_ptr<const void> keep_alive) {
  stream.refuse_in_capture("a copy between a tensor and memory of the host");
  const Checked checked(std::move(transfer), TransferDirection::FromDevice);
  if (checked.empty()) return nullptr;
  const auto runs = runs_of_read(sticks_of(checked.nests(), LoopSide::Source, checked.eps()).all);
  Reading reading;
  const auto bits = static_cast<std::uint64_t>(checked.element_count()) * bits_of(checked.card().format);
  if (bytes_of(runs) * 8 > 2 * bits) reading = read_packed(runtime, checked);
  if (reading.steps.empty()) reading = read_named_sticks(runtime, checked, runs);
  auto task = stream.host_work().make(
      stream, reading.bytes, [convert = std::move(reading.convert), keep = std::move(keep_alive)] { convert(); });
  launch_loops(stream, std::move(reading.steps), task, task.get());
  return task;
}

}  // namespace svp
