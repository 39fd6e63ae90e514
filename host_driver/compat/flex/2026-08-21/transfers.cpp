// SPDX-License-Identifier: Apache-2.0
// Transfers and fills.
#include "host_driver/compat/flex/2026-08-21/transfers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host_driver/compat/flex/2026-08-21/formats.hpp"
#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/frontend/loop_transfer.hpp"

namespace flex::detail {
namespace {

// Plain transfers into tensors up to this are copied by the launch; the memory of larger ones is the caller's to keep.
constexpr std::size_t kMostCopied = wire::kMiB;

// Bytes of the caller's, in memory of the launch's own: pinned when there is room.
struct Copied {
  svp::PinnedBuffer pinned;
  std::vector<std::byte> pageable;
  std::span<std::byte> bytes;
  std::shared_ptr<const void> completion;
};

std::shared_ptr<Copied> copied(svp::Runtime& runtime, std::span<const std::byte> bytes,
                               std::shared_ptr<const void> completion) {
  auto copy = std::make_shared<Copied>();
  if (auto pinned = runtime.host_memory().try_allocate(bytes.size())) {
    copy->pinned = *std::move(pinned);
    copy->bytes = copy->pinned.bytes();
  } else {
    copy->pageable.resize(bytes.size());
    copy->bytes = copy->pageable;
  }
  std::ranges::copy(bytes, copy->bytes.begin());
  copy->completion = std::move(completion);
  return copy;
}

struct Target {
  Place place;
  std::shared_ptr<const void> completion;  // the callback is due when this goes
};

// What both directions have in common. The callback is the transfer's from here on.
Target target_of(Context& context, unsigned stream, DmaParams& params, bool to_device) {
  if (Access::to_device(params) != to_device) {
    refuse("params", std::string("they were made for the other direction, ") + (to_device ? "D2H" : "H2D"),
           "launch them with the operation of that direction");
  }
  Target target{context.place_of(Access::device(params), "device address"), nullptr};
  target.completion = context.completions()->due(stream, params.callback);
  return target;
}

std::size_t plain_bytes(const DmaParams& params, const Place& place) {
  const std::size_t bytes = Access::bytes(params);
  if (bytes != 0 && Access::host(params) == nullptr) refuse("host", "there is no memory", "give its address");
  if (bytes <= place.bytes) return bytes;
  refuse("size", std::to_string(bytes) + " bytes do not fit the address, which has " + std::to_string(place.bytes),
         "move total_size() bytes at most");
}

svp::ElementFormat format_of(DataFormats format) {
  if (const auto known = element_format(format)) return *known;
  refuse("format", "there is no conversion with " + std::string(name_of(format)),
         "take one of the pairs of docs/tensors.md, Conversions of a copy");
}

svp::LoopTransfer loops_of(const data_conversion_info& conversion, std::byte* host, const Place& place,
                           bool to_device) {
  if (conversion.isHostToSen_ != to_device) {
    refuse("conversion", "isHostToSen_ says the other direction", "set it as the operation is");
  }
  svp::LoopTransfer transfer{
      .nests = {},
      .host_format = format_of(to_device ? conversion.dataformat_src_ : conversion.dataformat_dst_),
      .host = host,
      .card_format = format_of(to_device ? conversion.dataformat_dst_ : conversion.dataformat_src_),
      .memory = place.allocation->index(),
      .offset = place.offset,
      .bytes = place.bytes};
  for (const data_conversion_stride_info& nest : conversion.dcsi_) {
    transfer.nests.push_back({.size = nest.size_,
                              .src_stride = nest.stride_src_,
                              .dst_stride = nest.stride_dst_,
                              .src_offset = nest.offset_src_,
                              .dst_offset = nest.offset_dst_});
  }
  return transfer;
}

// The memory is what earlier operations of the stream leave there.
void wait_for_writes(Context& context, svp::FlexStream& flex, unsigned stream, const std::byte* memory,
                     std::size_t bytes) {
  if (context.host_writes().reach(stream, memory, bytes)) flex.Synchronize();
}

// A correction tensor that nobody waits for needs no transfer: the launch behind it takes it from the host.
bool stays_on_host(const ProgramMemory* program, std::span<const std::byte> bytes,
                   const std::shared_ptr<const void>& completion) {
  return program != nullptr && completion == nullptr && is_correction(bytes);
}

// What stayed on the host is sent in front of a transfer that reads this memory.
void send_the_rest(svp::Runtime& runtime, svp::FlexStream& flex, const Place& place) {
  if (place.allocation->program() == nullptr) return;
  for (const ProgramMemory::Unsent& unsent : place.allocation->program()->take_unsent()) {
    const auto copy = copied(runtime, unsent.bytes, nullptr);
    flex.Launch(svp::Job::to_device(copy->bytes.data(), place.allocation->index(), copy->bytes.size(), unsent.offset),
                {}, {.keep_alive = copy});
  }
}

// Goes when the transfer has ended, with its callback.
struct Receiving {
  std::shared_ptr<const void> write;
  std::shared_ptr<const void> completion;
};

}  // namespace

void send(Context& context, const Context::Call& call, unsigned stream, DmaParams& params) {
  const auto [place, completion] = target_of(context, stream, params, true);
  svp::FlexStream& flex = call.stream(stream);
  if (const data_conversion_info* conversion = Access::conversion(params)) {
    svp::LoopTransfer transfer = loops_of(*conversion, Access::host(params), place, true);
    const std::uint64_t reads = host_bytes_of(transfer, svp::TransferDirection::ToDevice);
    wait_for_writes(context, flex, stream, transfer.host, reads);
    return copy_to_card(call.runtime(), flex, std::move(transfer), completion);
  }
  const std::size_t bytes = plain_bytes(params, place);
  if (bytes == 0) return;
  wait_for_writes(context, flex, stream, Access::host(params), bytes);
  ProgramMemory* const program = place.allocation->program();
  const std::span<const std::byte> source(Access::host(params), bytes);
  if (stays_on_host(program, source, completion)) {
    if (const auto error = flex.error()) throw svp::StreamError(*error);
    return program->note_correction(stream, place.offset, source);
  }
  std::vector<SentBinary> binaries;
  if (program != nullptr) {  // what is wrong with one is found before anything of it is on the card
    binaries = binaries_in(source, "the binary for byte " + std::to_string(place.offset) + " of program memory");
  }
  if (program != nullptr || bytes <= kMostCopied) {
    const auto copy = copied(call.runtime(), source, completion);
    flex.Launch(svp::Job::to_device(copy->bytes.data(), place.allocation->index(), bytes, place.offset), {},
                {.keep_alive = copy});
    if (program != nullptr) program->note_sent(stream, place.offset, source, std::move(binaries));
    return;
  }
  flex.Launch(svp::Job::to_device(source.data(), place.allocation->index(), bytes, place.offset), {},
              {.keep_alive = completion});
}

void receive(Context& context, const Context::Call& call, unsigned stream, DmaParams& params) {
  const auto [place, completion] = target_of(context, stream, params, false);
  svp::FlexStream& flex = call.stream(stream);
  if (const data_conversion_info* conversion = Access::conversion(params)) {
    svp::LoopTransfer transfer = loops_of(*conversion, Access::host(params), place, false);
    const std::uint64_t writes = host_bytes_of(transfer, svp::TransferDirection::FromDevice);
    auto receiving =
        std::make_shared<const Receiving>(context.host_writes().add(stream, transfer.host, writes), completion);
    (void)copy_from_card(call.runtime(), flex, std::move(transfer), std::move(receiving));
    return;
  }
  const std::size_t bytes = plain_bytes(params, place);
  if (bytes == 0) return;
  send_the_rest(call.runtime(), flex, place);
  const auto receiving =
      std::make_shared<const Receiving>(context.host_writes().add(stream, Access::host(params), bytes), completion);
  flex.Launch(svp::Job::from_device(Access::host(params), place.allocation->index(), bytes, place.offset), {},
              {.keep_alive = receiving});
}

void fill(Context& context, const Context::Call& call, unsigned stream, const CompositeAddress* address, double value,
          DataFormats format) {
  const Place place = context.place_of(address, "device address");
  if (place.allocation->program() != nullptr) {
    refuse("device address", "it is memory of programs", "fill memory of tensors");
  }
  const std::uint64_t pattern = fill_pattern(value, format);
  call.stream(stream).Launch(svp::Job::fill(place.allocation->index(), place.bytes, pattern, place.offset), {});
}

}  // namespace flex::detail
