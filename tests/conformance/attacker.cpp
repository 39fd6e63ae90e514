// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/attacker.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "shared/memory_order.hpp"

namespace svp::conformance {

using fwtest::RawDriver;
using wire::ControlBlock;
using wire::kStickBytes;
using wire::Outcome;
using wire::Status;

namespace {
constexpr std::uint64_t kImageAt = 64 * wire::kKiB;  // in the Program region
constexpr unsigned kBatch = 120;                     // attempts in flight, each on a stream of its own
constexpr unsigned kChainBatch = 40;
constexpr unsigned kAdminBurst = wire::kAdminSlots - 2;
}  // namespace

Attacker::Attacker(std::vector<fwtest::RegionHandle> foreign, std::vector<std::byte> image)
    : slot_(provider().slot()), image_(std::move(image)) {
  targets_.foreign = std::move(foreign);
}

void Attacker::know(const std::vector<fwtest::GrantHandle>& grants) { targets_.grants = grants; }

Attacker::~Attacker() {
  if (driver_) EXPECT_EQ(driver_->set_status(0), 0u);
}

bool Attacker::begin(std::uint64_t features) {
  if (!driver_) driver_.emplace(slot_.window(), [this] { slot_.pump(); });
  if (!driver_->bring_up(features)) return false;
  const auto config = driver_->config();
  targets_.window_bytes = slot_.window().size();
  targets_.generation = driver_->generation();
  targets_.kind = config.kind;
  targets_.function_index = config.function_index;
  targets_.functions = config.virtual_functions;
  const auto released = driver_->acquire(2 * wire::kMiB);
  const auto tensor = driver_->acquire(2 * wire::kMiB);
  const auto program = driver_->acquire(2 * wire::kMiB, wire::RegionType::Program);
  if (!released || !tensor || !program || driver_->release(*released).outcome != Outcome::Ok) return false;
  targets_.released = *released;
  targets_.tensor = *tensor;
  targets_.program = *program;
  targets_.buffers.clear();
  acquired_.clear();
  return open_streams() && signal() && load_image();
}

bool Attacker::open_streams() {
  streams_.assign(1, {});
  while (streams_.size() < kStreams) {
    std::vector<std::uint16_t> asked;
    for (std::size_t i = streams_.size(); i < kStreams && asked.size() < kAdminBurst; ++i) {
      auto request = driver_->admin_request(wire::AdminCommand::StreamOpen);
      request.arguments.stream_open.priority = i % 2;
      asked.push_back(driver_->send_admin(request));
    }
    for (const std::uint16_t slot : asked) {
      const auto reply = driver_->wait_admin(slot);
      if (!reply || reply->outcome != Outcome::Ok) return false;
      streams_.push_back({reply->values.stream.stream, reply->values.stream.incarnation, 1});
    }
  }
  return true;
}

// On the last stream, which no batch of blocks uses.
bool Attacker::signal() {
  targets_.signalled = streams_.back().id;
  return driver_->run(driver_->event_signal(streams_.back(), raw::kSignalled)).outcome == Outcome::Ok;
}

bool Attacker::load_image() {
  targets_.image_offset = kImageAt;
  targets_.image_bytes = image_.size();
  if (image_.empty()) return true;
  std::memcpy(slot_.window().data() + wire::kHostMemoryOffset, image_.data(), image_.size());
  const auto block = driver_->dma(streams_[0], RawDriver::host(wire::kHostMemoryOffset),
                                  RawDriver::device(targets_.program, kImageAt), image_.size());
  return driver_->run(block).outcome == Outcome::Ok;
}

void Attacker::note(Outcome outcome, Status status) {
  ++attempts_;
  if (outcome != Outcome::Ok) ++refused_;
  ++endings_[std::string(wire::name(outcome)) + " " + std::string(wire::name(status))];
}

void Attacker::print_executed() const {
  std::string text;
  for (std::size_t opcode = 0; opcode < executed_.size(); ++opcode) {
    text += ' ' + std::string(wire::name(static_cast<wire::Opcode>(opcode))) + ' ' + std::to_string(executed_[opcode]);
  }
  std::printf("  executed:%s\n", text.c_str());
}

// ---- control blocks -------------------------------------------------------------------------------------------------

namespace {

// The attacker's own view of its rights, made from the contract and not from the firmware's words.
class Rights {
 public:
  // `acquired`: regions besides those of the targets.
  Rights(const Targets& targets, const std::vector<fwtest::RegionHandle>& acquired)
      : targets_(targets), acquired_(acquired) {}

  bool to_execute(const ControlBlock& block) const {
    const auto& payload = block.payload;
    switch (block.header.opcode) {
      case wire::Opcode::Nop:
      case wire::Opcode::EventSignal: return true;
      // Nothing but streams of the function: nobody has granted it another one.
      case wire::Opcode::EventWait: return payload.event.flags == 0;
      case wire::Opcode::Dma:
        if (wire::is_strided(block)) return to_stride(payload.strided);
        return reaches(payload.dma.source, payload.dma.bytes) && reaches(payload.dma.destination, payload.dma.bytes);
      case wire::Opcode::Fill: return reaches(payload.fill.destination, payload.fill.bytes);
      case wire::Opcode::Compute: return launches(payload.compute);
      case wire::Opcode::Call:
      case wire::Opcode::Prepared: return made(payload.call.buffer, payload.call.epoch);
      case wire::Opcode::Patch: return made(payload.patch.buffer, payload.patch.epoch);
      default: return false;
    }
  }
  // As a block of a command buffer with so many bytes of data.
  bool to_hold(ControlBlock entry, std::uint64_t data_bytes) const {
    if (!wire::is_bufferable(entry.header.opcode)) return false;
    if (entry.header.opcode == wire::Opcode::EventWait) return true;  // by whatever grant: that is judged at the call
    auto& compute = entry.payload.compute;
    const bool with_data =
        entry.header.opcode == wire::Opcode::Compute && compute.correction.kind == wire::EndpointKind::BufferData;
    if (!with_data) return to_execute(entry);
    const std::uint64_t bytes = compute.correction_bytes;
    compute.correction_bytes = 0;
    return compute.correction.offset <= data_bytes && bytes <= data_bytes - compute.correction.offset &&
           to_execute(entry);
  }

 private:
  // From the lowest to the highest byte of each end, in numbers that do not wrap.
  bool to_stride(const wire::StridedDmaPayload& strided) const {
    const auto all_reached = [&](wire::Endpoint end, std::int64_t wire::StridedLevel::* stride) {
      __int128 low = end.offset;
      __int128 high = low + strided.loops.element_bytes;
      for (unsigned i = 0; i < std::min(strided.loops.depth, wire::kStridedLevels); ++i) {
        const wire::StridedLevel& level = strided.loops.levels[i];
        const __int128 reach = (static_cast<__int128>(level.count) - 1) * (level.*stride);
        (reach < 0 ? low : high) += reach * strided.loops.element_bytes;
      }
      constexpr __int128 kFar = static_cast<__int128>(1) << 63;
      if (low < 0 || high > kFar) return false;
      end.offset = static_cast<std::uint64_t>(low);
      return reaches(end, static_cast<std::uint64_t>(high - low));
    };
    return all_reached(strided.dma.source, &wire::StridedLevel::source_stride) &&
           all_reached(strided.dma.destination, &wire::StridedLevel::destination_stride);
  }
  bool made(std::uint32_t id, std::uint64_t epoch) const {
    return std::ranges::any_of(targets_.buffers,
                               [&](const raw::BufferHandle& one) { return one.id == id && one.epoch == epoch; });
  }
  static bool inside(const fwtest::RegionHandle& region, std::uint64_t id, std::uint32_t generation,
                     std::uint64_t offset, std::uint64_t bytes) {
    return id == region.id && generation == region.generation && offset <= region.bytes &&
           bytes <= region.bytes - offset;
  }
  bool reaches(const wire::Endpoint& end, std::uint64_t bytes) const {
    if (end.kind == wire::EndpointKind::HostMemory) {
      return end.offset >= wire::kHostMemoryOffset && end.offset <= targets_.window_bytes &&
             bytes <= targets_.window_bytes - end.offset;
    }
    return holds(targets_.tensor, end, bytes) || holds(targets_.program, end, bytes) || holds_acquired(end, bytes);
  }
  static bool holds(const fwtest::RegionHandle& region, const wire::Endpoint& end, std::uint64_t bytes) {
    return inside(region, end.region_id, end.generation, end.offset, bytes);
  }
  bool holds_acquired(const wire::Endpoint& end, std::uint64_t bytes) const {
    return std::ranges::any_of(acquired_,
                               [&](const fwtest::RegionHandle& region) { return holds(region, end, bytes); });
  }
  bool launches(const wire::ComputePayload& compute) const {
    const auto in_program = [&](const wire::Endpoint& end, std::uint64_t bytes) {
      return holds(targets_.program, end, bytes) || holds_acquired(end, bytes);
    };
    if (!in_program(compute.image, compute.image_bytes)) return false;
    if (compute.correction_bytes != 0 && !in_program(compute.correction, compute.correction_bytes)) return false;
    return std::all_of(std::begin(compute.segments), std::end(compute.segments), [&](const wire::Segment& segment) {
      const wire::Endpoint at{segment.region_id, segment.offset, segment.generation, wire::EndpointKind::Region, {}};
      return segment.access == wire::kSegmentUnused || holds(targets_.tensor, at, segment.bytes) ||
             holds_acquired(at, segment.bytes);
    });
  }

  const Targets& targets_;
  const std::vector<fwtest::RegionHandle>& acquired_;
};

}  // namespace

// Of a buffer with as many bytes of data as one can have.
void Attacker::check_patch(const wire::PatchPayload& patch) {
  const std::uint64_t index = (patch.offset - Attempts::entries()) / wire::kBufferBlockBytes;
  if (patch.offset % wire::kBufferBlockBytes != 0 || index >= entries_.size()) return;
  EXPECT_TRUE(Rights(targets_, acquired_).to_hold(entries_[index], wire::kMaxBufferDataBytes))
      << "a command buffer was given a " << wire::name(entries_[index].header.opcode) << " without the right to it";
}

void Attacker::check_block_end(const ControlBlock& block, const fwtest::Ended& ended) {
  const auto& end = ended.completion;
  ASSERT_EQ(ended.written, kStickBytes);
  ASSERT_LE(end.outcome, Outcome::Aborted) << "an outcome that is the host's to decide";
  EXPECT_EQ(end.cookie, block.header.cookie);
  EXPECT_EQ(end.sequence, block.header.sequence);
  EXPECT_EQ(end.status == Status::None, end.outcome == Outcome::Ok) << wire::name(end.outcome);
  EXPECT_NE(wire::name(end.status), "unknown status") << static_cast<int>(end.status);
  if (end.outcome == Outcome::Rejected || end.outcome == Outcome::Aborted) {
    EXPECT_EQ(end.start_time, 0u) << "it was begun";
    EXPECT_EQ(end.bytes, 0u);
  }
  if (end.outcome == Outcome::Ok) {
    ASSERT_LE(block.header.opcode, wire::kLastOpcode);
    ++executed_[static_cast<std::size_t>(block.header.opcode)];
    EXPECT_TRUE(Rights(targets_, acquired_).to_execute(block))
        << wire::name(block.header.opcode) << " was executed without the right to";
    if (block.header.opcode == wire::Opcode::Patch) check_patch(block.payload.patch);
  }
  note(end.outcome, end.status);
}

// The queue of control blocks is reset: one command for all streams, which makes each of them new. The image is brought
// again, because an attempt may have written over it.
void Attacker::heal_streams() {
  ASSERT_TRUE(driver_->reset_queue(wire::kControlBlockQueue));
  driver_->forget_blocks();
  ASSERT_TRUE(driver_->set_queue(wire::kControlBlockQueue));
  for (auto& stream : streams_) stream = {stream.id, stream.incarnation + 1, 1};
  ASSERT_TRUE(load_image());
}

// What BUFFER_CREATE and PATCH find. Not while a request or a patch is under way: halves of two entries could be a wait
// without a budget.
void Attacker::write_entries(Attempts& attempts) {
  std::ranges::generate(entries_, [&] { return attempts.entry(); });
  wire::store_shared_words(driver_->at<std::uint64_t>(Attempts::entries()),
                           reinterpret_cast<const std::uint64_t*>(entries_.data()), sizeof entries_ / 8);
}

// Some are made, fewer destroyed: what is called and patched changes all the time.
void Attacker::change_buffers(Attempts& attempts) {
  constexpr wire::AdminCommand kCommands[] = {wire::AdminCommand::BufferCreate, wire::AdminCommand::BufferCreate,
                                              wire::AdminCommand::BufferCreate, wire::AdminCommand::BufferCreate,
                                              wire::AdminCommand::BufferCreate, wire::AdminCommand::BufferDestroy};
  write_entries(attempts);
  for (const auto command : kCommands) {
    const auto request = attempts.admin_request(command);
    requests_.emplace(driver_->send_admin(request), request);
  }
  await_requests();
}

void Attacker::submit_attempt(Attempts& attempts, const fwtest::StreamHandle& stream) {
  ControlBlock block = attempts.control_block(stream);
  const unsigned sticks = std::clamp<unsigned>(block.header.sticks, 1, wire::kMaxControlBlockSticks);
  // Behind a bad checksum nothing else is judged.
  if (sticks == block.header.sticks && attempts.below(8) != 0) driver_->seal(block);
  const std::uint16_t slot = driver_->submit_sticks(block, sticks);
  blocks_.insert_or_assign(slot, block);
}

void Attacker::await_blocks(std::uint64_t first) {
  const auto ends = driver_->wait_for(kBatch);
  ASSERT_EQ(ends.size(), kBatch) << "attempts " << first << " to " << first + kBatch;
  for (const auto& end : ends) check_block_end(blocks_.at(end.slot), end);
}

void Attacker::control_blocks(std::uint64_t seed, std::uint64_t count) {
  Attempts attempts(targets_, seed);
  for (std::uint64_t done = 0; done < count; done += kBatch) {
    heal_streams();
    change_buffers(attempts);
    if (testing::Test::HasFatalFailure()) return;
    for (unsigned i = 0; i < kBatch; ++i) submit_attempt(attempts, streams_[i]);
    await_blocks(done);
    if (testing::Test::HasFailure()) return;
  }
}

void Attacker::control_blocks_until(std::uint64_t seed, std::uint64_t count, std::span<const wire::Opcode> wanted) {
  constexpr unsigned kMostRounds = 8;
  constexpr std::uint64_t kOtherSeeds = 1000;
  const auto seen = [&](wire::Opcode opcode) { return executed(opcode) != 0; };
  for (unsigned round = 0; round < kMostRounds && !testing::Test::HasFailure(); ++round) {
    control_blocks(seed + round * kOtherSeeds, count);
    if (std::ranges::all_of(wanted, seen)) break;
  }
  print_executed();
  for (const auto opcode : wanted) {
    EXPECT_GT(executed(opcode), 0u) << "no " << wire::name(opcode) << " gets as far as being executed";
  }
}

void Attacker::blocks_beside_requests(std::uint64_t seed, std::uint64_t rounds) {
  Attempts attempts(targets_, seed);
  const std::uint64_t features = driver_->features();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    ASSERT_TRUE(begin(features)) << "round " << round;
    requests_.clear();
    change_buffers(attempts);
    for (unsigned i = 0; i < kBatch; ++i) {
      submit_attempt(attempts, streams_[i]);
      if (attempts.below(3) != 0 || requests_.size() == kAdminBurst) continue;
      const auto request = attempts.admin_request();
      requests_.emplace(driver_->send_admin(request), request);
    }
    if (round % 2 != 0) {
      attempts_ += kBatch + requests_.size();
      continue;
    }
    await_requests();
    await_blocks(round * kBatch);
    if (testing::Test::HasFailure()) return;
  }
  ASSERT_TRUE(begin(features));
  requests_.clear();
}

// ---- chains ---------------------------------------------------------------------------------------------------------

// False: nothing may follow before it came back.
bool Attacker::add_chain(Attempts& attempts, std::uint16_t id) {
  auto& ring = driver_->ring(wire::kControlBlockQueue);
  const auto chain = attempts.chain();
  if ((chain.more_flags & wire::kDescIndirect) != 0) {
    const auto words = attempts.table_words();
    wire::store_shared_words(driver_->at<std::uint64_t>(attempts.table()),
                             reinterpret_cast<const std::uint64_t*>(words.data()), words.size() * 2);
  }
  if (chain.more_flags == 0 && !chain.partly_published) {
    ring.add(id, chain.buffers);
    return true;
  }
  const auto& only = chain.buffers.front();
  const auto flags = static_cast<std::uint16_t>(chain.more_flags | (only.writable ? wire::kDescWrite : 0) |
                                                (chain.partly_published ? wire::kDescNext : 0));
  ring.expect_chain(id, 1);
  ring.add_raw(id, only.offset, only.bytes, flags);
  return !chain.partly_published;
}

void Attacker::await_chains(std::size_t count) {
  auto& ring = driver_->ring(wire::kControlBlockQueue);
  const auto limit = test::soon();
  for (std::size_t came = 0; came < count;) {
    const auto used = ring.poll();
    if (!used) {
      ASSERT_LT(Device::Clock::now(), limit) << count - came << " chains never came back";
      driver_->pump();
      continue;
    }
    ++came;
    ASSERT_LT(used->id, count) << "a chain that was not made available, or twice";
    // Length 0 says "no chain"; else a completion was written, where the card may write one.
    if (used->written != 0) ASSERT_EQ(used->written, kStickBytes);
    EXPECT_EQ(used->write_flag, used->written != 0);
    ++attempts_;
    ++endings_[used->written == 0 ? "chain given back empty" : "chain with a completion"];
  }
  EXPECT_EQ(ring.in_flight(), 0u);
}

void Attacker::chains(std::uint64_t seed, std::uint64_t count) {
  Attempts attempts(targets_, seed);
  heal_streams();
  // What the block slots hold is left over from before: some of it good, on streams that are there.
  for (std::uint64_t done = 0; done < count;) {
    // The slots are kept filled with what a chain may carry; not while a chain is under way: halves of two blocks could
    // be a wait without a budget.
    for (unsigned i = 0; i < kChainBatch; ++i) {
      const ControlBlock block = attempts.control_block(streams_[attempts.below(kStreams)]);
      wire::store_shared_words(driver_->at<std::uint64_t>(block_at(attempts.below(wire::kControlBlockSlots))),
                               reinterpret_cast<const std::uint64_t*>(&block), sizeof block / 8);
    }
    std::uint16_t added = 0;
    while (added < kChainBatch && done + added < count) {
      if (!driver_->ring(wire::kControlBlockQueue).room_for(700)) break;
      if (!add_chain(attempts, added++)) break;
    }
    await_chains(added);
    if (testing::Test::HasFailure()) return;
    done += added;
  }
}

// ---- admin ----------------------------------------------------------------------------------------------------------

void Attacker::check_reply(const wire::AdminRequest& request, const wire::AdminReply& reply) {
  EXPECT_EQ(reply.cookie, request.cookie);
  ASSERT_LE(reply.outcome, Outcome::Rejected) << wire::name(request.command);
  EXPECT_EQ(reply.status == Status::None, reply.outcome == Outcome::Ok) << wire::name(request.command);
  EXPECT_NE(wire::name(reply.status), "unknown status");
  note(reply.outcome, reply.status);
  if (reply.outcome != Outcome::Ok) return;
  ASSERT_LE(request.command, wire::kLastAdminCommand);
  ++fulfilled_[static_cast<std::size_t>(request.command)];
  const auto& values = reply.values;
  if (request.command == wire::AdminCommand::RegionAcquire) {
    acquired_.push_back({values.region.region_id, values.region.generation, values.region.bytes});
  } else if (request.command == wire::AdminCommand::BufferCreate) {
    const auto& asked = request.arguments.buffer_create;
    targets_.buffers.push_back({values.buffer.buffer, asked.blocks, values.buffer.epoch, false});
    const std::uint64_t first = (asked.offset - Attempts::entries()) / wire::kBufferBlockBytes;
    if (asked.offset % wire::kBufferBlockBytes != 0 || first + asked.blocks > entries_.size()) return;
    targets_.buffers.back().launch = asked.blocks == 1 && entries_[first].header.opcode == wire::Opcode::Compute;
    for (std::uint64_t i = first; i < first + asked.blocks; ++i) {
      EXPECT_TRUE(Rights(targets_, acquired_).to_hold(entries_[i], asked.data_bytes))
          << "a command buffer has a " << wire::name(entries_[i].header.opcode) << " without the right to it";
    }
  }
}

void Attacker::await_requests() {
  for (const auto& [slot, request] : requests_) {
    const auto reply = driver_->wait_admin(slot);
    ASSERT_TRUE(reply) << "no reply to " << wire::name(request.command) << ", attempt " << request.cookie;
    check_reply(request, *reply);
  }
  requests_.clear();
}

void Attacker::admin_requests(std::uint64_t seed, std::uint64_t count) {
  Attempts attempts(targets_, seed);
  for (std::uint64_t done = 0; done < count; done += kAdminBurst) {
    write_entries(attempts);
    for (unsigned i = 0; i < kAdminBurst; ++i) {
      auto request = attempts.admin_request();
      request.cookie = done + i;
      requests_.emplace(driver_->send_admin(request), request);
    }
    await_requests();
    if (testing::Test::HasFailure()) return;
  }
}

void Attacker::expect_works() {
  ASSERT_TRUE(begin());
  auto& stream = streams_.back();
  constexpr std::uint64_t kAt = wire::kHostMemoryOffset + 2 * wire::kMiB;
  ASSERT_EQ(driver_->run(driver_->fill(stream, targets_.tensor, 0, 4096, 0x600D)).outcome, Outcome::Ok);
  ASSERT_EQ(
      driver_->run(driver_->dma(stream, RawDriver::device(targets_.tensor, 0), RawDriver::host(kAt), 4096)).outcome,
      Outcome::Ok);
  const auto* words = driver_->at<std::uint64_t>(kAt);
  EXPECT_TRUE(std::all_of(words, words + 512, [](std::uint64_t word) { return word == 0x600D; }));
}

}  // namespace svp::conformance
