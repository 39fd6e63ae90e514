// SPDX-License-Identifier: Apache-2.0
// Control blocks and admin commands of a function that means harm, structured: the input is a program of steps against
// a native card with regions and played kernels. Each block that the card accepted ends exactly once and as itself,
// unless a reset took it away; each command is answered once; a stream that waits is in the list of what it waits for;
// canaries of the other function stand; a reset heals.
#include <array>
#include <map>
#include <optional>
#include <span>

#include "shared/command_buffer.hpp"
#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"
#include "tests/fuzz/native_attacker.hpp"
#include "tests/support/buffer_entry.hpp"

namespace {

using fuzz::Input;
using fuzz::require;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::AdminCommand;
using wire::Outcome;

class Attack {
 public:
  explicit Attack(Input input) : input_(input), physical_(input_.below(2) != 0) {
    attacker_.begin(physical_);
    require(driver().bring_up(wire::kMandatoryFeatures | (input_.below(2) != 0 ? wire::kOptionalFeatures : 0)),
            "the hostile function comes up");
    begin_anew();
  }

  void run() {
    constexpr unsigned kMostSteps = 400;
    for (unsigned i = 0; i < kMostSteps && !input_.empty(); ++i) step();
    drain();
    attacker_.expect_contained();
  }

 private:
  fwtest::RawDriver& driver() { return attacker_.driver(); }

  void begin_anew() {
    outstanding_.clear();
    unawaited_.clear();
    buffers_.clear();
    streams_.assign(1, StreamHandle{});
    regions_.clear();
    programs_.reset();
  }

  void step() {
    switch (input_.below(16)) {
      case 0:
      case 1:
      case 2: return submit(good_block());
      case 3:
      case 4:
      case 5: return submit(spoilt_block());
      case 6: return submit(any_block());
      case 7: return attacker_.run_iterations(1 + input_.below(8));
      case 8: return collect();
      case 9: return acquire();
      case 10: return release();
      case 11: return streams();
      case 12: return command();
      case 13: return change_what_was_published();
      case 14: return resets();
      default: return input_.below(2) != 0 ? load_programs() : input_.below(2) != 0 ? cancel() : unawaited();
    }
  }

  // ---- blocks
  StreamHandle& stream() { return streams_[input_.below(256) % streams_.size()]; }
  RegionHandle region() {
    if (regions_.empty()) return {input_.take<std::uint64_t>(), input_.take<std::uint32_t>(), wire::kGranuleBytes};
    return regions_[input_.below(256) % regions_.size()];
  }
  wire::Endpoint host_memory() {
    return fwtest::RawDriver::host(wire::kHostMemoryOffset + input_.take<std::uint16_t>());
  }
  wire::Endpoint on_device() { return fwtest::RawDriver::device(region(), input_.below(1024) * wire::kStickBytes); }
  std::uint64_t some_bytes() { return 1 + input_.take<std::uint32_t>() % (input_.below(8) == 0 ? 600'000u : 4000u); }

  wire::ControlBlock good_block() {
    StreamHandle& s = stream();
    switch (input_.below(9)) {
      case 0: return driver().nop(s);
      case 6: return event(s);
      case 7: return call(s);
      case 8: return patch(s);
      case 1: return driver().fill(s, region(), input_.below(1024) * wire::kStickBytes, some_bytes(), 0x5a5a);
      case 2: return summed(driver().dma(s, host_memory(), on_device(), some_bytes()));
      case 3: return summed(driver().dma(s, on_device(), host_memory(), some_bytes()));
      case 4: return input_.below(2) != 0 ? strided(s) : driver().dma(s, on_device(), on_device(), some_bytes());
      default: return launch(s);
    }
  }
  // Signals and waits, of its own streams, of the bystander's by a grant, by one that is revoked and by what is none.
  wire::ControlBlock event(StreamHandle& s) {
    const std::uint64_t value = 1 + input_.below(4);
    // A wait without a budget ends with its stream, at the latest when the input drains.
    const std::uint64_t budget = input_.below(4) == 0 ? 0 : 1;
    waits_without_end_ |= budget == 0;
    switch (input_.below(4)) {
      case 0: return driver().event_signal(s, value);
      case 1: return driver().event_wait(s, stream(), value, budget);
      case 2: return driver().granted_wait(s, attacker_.grant_bystander(), StreamHandle{}, value, budget);
      default: {
        raw::GrantHandle grant = attacker_.grant_bystander();
        const auto change = input_.take<std::uint8_t>();
        constexpr unsigned kRevoked = 0x80;
        if ((change & kRevoked) != 0) attacker_.revoke_bystander();
        grant.index ^= change & ~kRevoked;
        grant.epoch ^= input_.take<std::uint64_t>();
        return driver().granted_wait(s, grant, stream(), value, budget);
      }
    }
  }
  // Of a buffer that was made, and perhaps destroyed since.
  wire::ControlBlock call(StreamHandle& s) {
    if (buffers_.empty()) return driver().nop(s);
    const Buffer& buffer = buffers_[input_.below(256) % buffers_.size()];
    wire::ControlBlock block{};
    block.header.opcode = input_.below(2) != 0 ? wire::Opcode::Call : wire::Opcode::Prepared;
    block.payload.call = {.buffer = buffer.id,
                          .reserved0 = 0,
                          .epoch = buffer.epoch,
                          .signal_base = block.header.opcode == wire::Opcode::Call ? input_.below(4) : 0,
                          .reserved = {}};
    return driver().addressed(s, block);
  }
  wire::ControlBlock patch(StreamHandle& s) {
    if (buffers_.empty()) return driver().nop(s);
    const Buffer& buffer = buffers_[input_.below(256) % buffers_.size()];
    const wire::ControlBlock entry = buffer_entry();
    std::memcpy(driver().at<std::byte>(kPatchAt), &entry, sizeof entry);
    wire::ControlBlock block{};
    block.header.opcode = wire::Opcode::Patch;
    block.payload.patch = {.buffer = buffer.id,
                           .block = input_.below(buffer.blocks + 1),
                           .epoch = buffer.epoch,
                           .offset = kPatchAt,
                           .bytes = wire::kBufferBlockBytes,
                           .reserved = {}};
    return driver().addressed(s, block);
  }
  // No waits: a call of the buffer would stand until its stream is reset.
  wire::ControlBlock buffer_entry() {
    StreamHandle nowhere;
    switch (input_.below(4)) {
      case 0: return svp::test::buffer_entry(driver().event_signal(nowhere, 1 + input_.below(4)));
      case 1: return svp::test::buffer_entry(driver().fill(nowhere, region(), 0, some_bytes(), 0x5a5a));
      case 2: {
        wire::ControlBlock block = launch(nowhere);
        be_brief(block);
        return svp::test::buffer_entry(block);
      }
      default: return svp::test::buffer_entry(driver().nop(nowhere));
    }
  }
  // Transposed, or with any strides.
  wire::ControlBlock strided(StreamHandle& s) {
    const auto rows = 1 + input_.below(64);
    const auto columns = 1 + input_.below(64);
    std::array<wire::StridedLevel, wire::kStridedLevels> levels{
        {{rows, static_cast<std::int64_t>(columns), 1}, {columns, 1, static_cast<std::int64_t>(rows)}}};
    unsigned depth = 2;
    for (; depth < 2 + input_.below(wire::kStridedLevels - 1); ++depth) {
      levels[depth] = {1 + input_.below(4), input_.take<std::int16_t>(), input_.take<std::int16_t>()};
    }
    const bool out = input_.below(2) != 0;
    const wire::Endpoint from = out ? host_memory() : on_device();
    const wire::Endpoint to = input_.below(2) != 0 ? on_device() : host_memory();
    return driver().strided(s, from, to, 1u << input_.below(4), std::span(levels).first(depth));
  }
  // With a checksum or not, to the device mostly the right one of what is there now; or ahead.
  wire::ControlBlock summed(wire::ControlBlock block) {
    wire::DmaPayload& dma = block.payload.dma;
    const unsigned how = input_.below(8);
    if (how == 3) {
      dma.flags = wire::kDmaAhead;
      driver().seal(block);
    }
    if (how > 2) return block;
    dma.flags = wire::kDmaChecksum;
    const auto memory = driver().window();
    const bool readable = wire::host_memory(memory.size()).contains(dma.source.offset, dma.bytes);
    if (dma.source.kind == wire::EndpointKind::HostMemory && readable && how != 0) {
      dma.checksum = wire::crc32c(0, memory.data() + dma.source.offset, dma.bytes);
    }
    driver().seal(block);
    return block;
  }
  wire::ControlBlock launch(StreamHandle& s) {
    if (!programs_) return driver().nop(s);
    constexpr unsigned kPrograms = static_cast<unsigned>(fwtest::Program::FindsBytes) + 2;  // one that does not exist
    constexpr std::uint64_t kMasks[] = {0, 2, 3};                                           // any core, core 1, both
    auto block = fwtest::launch_of(driver(), s, *programs_, static_cast<fwtest::Program>(input_.below(kPrograms)),
                                   kMasks[s.id % std::size(kMasks)]);
    if (input_.below(2) != 0) {
      for (unsigned i = 0; i < input_.below(wire::kSegments); ++i) {
        const RegionHandle r = region();
        block.payload.compute.segments[i] = {r.id, 0, some_bytes(), r.generation, wire::kSegmentReadWrite, {}};
      }
      block.payload.compute.correction = fwtest::RawDriver::device(*programs_, input_.below(256) * wire::kStickBytes);
      block.payload.compute.correction_bytes = input_.below(4097);
      driver().seal(block);
    }
    return block;
  }
  // Good but for some bytes, with the checksum put right or not.
  wire::ControlBlock spoilt_block() {
    wire::ControlBlock block = good_block();
    auto* bytes = reinterpret_cast<std::uint8_t*>(&block);
    for (unsigned i = 0, count = 1 + input_.below(4); i < count; ++i) {
      const unsigned at = input_.below(sizeof block);
      bytes[at] = input_.below(2) != 0 ? input_.take<std::uint8_t>() : static_cast<std::uint8_t>(bytes[at] + 1);
    }
    be_brief(block);
    if (input_.below(4) != 0 && block.header.sticks <= wire::kMaxControlBlockSticks) driver().seal(block);
    return block;
  }
  // A legal budget may be eleven days: an endless kernel has to end within an input.
  static void be_brief(wire::ControlBlock& block) {
    constexpr std::uint64_t kBrief = 4;
    auto& budget = block.header.budget;
    const bool launches = block.header.opcode == wire::Opcode::Compute;
    if (launches && budget <= wire::kMaxBudgetSlices) budget = std::min(budget, kBrief);
    if (block.header.opcode == wire::Opcode::EventWait) budget = kBrief;
  }
  wire::ControlBlock any_block() {
    auto block = input_.take<wire::ControlBlock>();
    const unsigned honest = input_.below(256);
    if ((honest & 1) != 0) block.header.magic = wire::kControlBlockMagic;
    if ((honest & 2) != 0) block.header.generation = driver().generation();
    if ((honest & 4) != 0) block.header.sticks = static_cast<std::uint8_t>(wire::required_sticks(block));
    if ((honest & 8) != 0) {
      StreamHandle& s = stream();
      block.header.stream = s.id;
      block.header.incarnation = s.incarnation;
      block.header.sequence = s.next_sequence++;
    }
    be_brief(block);
    if ((honest & 16) != 0 && block.header.sticks <= wire::kMaxControlBlockSticks) driver().seal(block);
    return block;
  }

  void submit(const wire::ControlBlock& block) {
    if (!driver().block_slot_free()) return drain();
    const unsigned sticks = std::clamp<unsigned>(block.header.sticks, 1, wire::kMaxControlBlockSticks);
    const auto slot = driver().submit_sticks(block, sticks);
    require(outstanding_.emplace(slot, block.header).second, "a slot carries one block at a time");
  }

  void collect() {
    take_replies();
    for (const fwtest::Ended& end : driver().collect()) {
      const auto sent = outstanding_.find(end.slot);
      require(sent != outstanding_.end(), "a block ends once, and not after its reset");
      const wire::Completion& c = end.completion;
      require(c.outcome <= Outcome::Aborted, "the card knows five outcomes");
      require((c.outcome == Outcome::Ok) == (c.status == wire::Status::None), "OK has no status, all else has");
      const wire::ControlBlockHeader& was = sent->second;
      // What was changed in the window meanwhile comes back as the card read it.
      if (!changed_ && c.status != wire::Status::BadChain) {
        require(c.stream == was.stream && c.incarnation == was.incarnation && c.generation == was.generation &&
                    c.sequence == was.sequence && c.cookie == was.cookie,
                "a completion is of the block that was sent");
      }
      if (c.outcome == Outcome::Ok && !changed_) {
        require(was.magic == wire::kControlBlockMagic && was.generation == driver().generation(),
                "nothing forged is executed");
      }
      outstanding_.erase(sent);
    }
  }

  void drain() {
    if (waits_without_end_) {
      for (StreamHandle& s : streams_) (void)driver().reset_stream(s);
      waits_without_end_ = false;
    }
    attacker_.settle();
    collect();
    require(outstanding_.empty(), "every accepted block ends");
    require(unawaited_.empty(), "every command is answered");
  }

  // ---- commands
  void acquire() {
    const auto type = input_.below(4) == 0 ? wire::RegionType::Program : wire::RegionType::Tensor;
    if (const auto region = driver().acquire((1 + input_.below(4)) * wire::kGranuleBytes, type)) {
      regions_.push_back(*region);
    }
    collect();
  }
  void release() {
    if (regions_.empty()) return;
    // Forgotten or not: a handle that is stale is one of the things to try.
    (void)driver().release(regions_[input_.below(256) % regions_.size()]);
    if (input_.below(2) != 0) regions_.erase(regions_.begin());
    collect();
  }
  void streams() {
    if (input_.below(2) != 0 && streams_.size() < 8) {
      if (const auto opened = driver().open_stream(input_.below(2) != 0)) streams_.push_back(*opened);
    } else {
      StreamHandle& s = stream();
      (void)driver().admin(driver().stream_request(AdminCommand::StreamClose, s));
      if (input_.below(2) != 0 && streams_.size() > 1) std::swap(s, streams_.back()), streams_.pop_back();
    }
    collect();
  }
  // A trace is switched, or a command buffer made or destroyed, without waiting for the answer.
  void unawaited_other() {
    auto request = driver().admin_request(AdminCommand::Trace);
    switch (input_.below(3)) {
      case 0: request.arguments.trace.on = input_.below(2); break;
      case 1: {
        const std::uint32_t blocks = 1 + input_.below(8);
        for (std::uint32_t i = 0; i < blocks; ++i) {
          const wire::ControlBlock entry = buffer_entry();
          std::memcpy(driver().at<std::byte>(kBufferAt + i * sizeof entry), &entry, sizeof entry);
        }
        request = driver().admin_request(AdminCommand::BufferCreate);
        request.arguments.buffer_create = {kBufferAt, blocks, 0};
        break;
      }
      default: {
        if (buffers_.empty()) return;
        const Buffer& buffer = buffers_[input_.below(256) % buffers_.size()];
        request = driver().admin_request(AdminCommand::BufferDestroy);
        request.arguments.buffer_destroy = {buffer.id, 0, buffer.epoch};
      }
    }
    const AdminCommand command = request.command;
    unawaited_.push_back({driver().send_admin(request), command, request.arguments.buffer_create.blocks});
  }
  // A stream is reset, closed or opened without waiting for the answer, beside copies of a block of what comes next.
  void unawaited() {
    constexpr std::size_t kMost = 8;
    if (unawaited_.size() == kMost) return;
    if (input_.below(2) != 0) return unawaited_other();
    const StreamHandle& s = stream();
    constexpr AdminCommand kCommands[] = {AdminCommand::StreamClose, AdminCommand::StreamReset,
                                          AdminCommand::StreamOpen};
    const AdminCommand command = kCommands[input_.below(3)];
    auto request = driver().stream_request(command, {s.id, s.incarnation + input_.below(2), 1});
    if (command == AdminCommand::StreamOpen) request = driver().admin_request(command);
    unawaited_.push_back({driver().send_admin(request), command, 0});
    for (unsigned copies = input_.below(64); copies > 0 && driver().block_slot_free(); --copies) {
      StreamHandle next{s.id, s.incarnation + 1, 1};
      submit(launch(next));
    }
  }
  void take_replies() {
    std::erase_if(unawaited_, [&](const Unawaited& sent) {
      const auto reply = driver().take_admin(sent.slot);
      if (!reply) return false;
      if (reply->outcome != Outcome::Ok) return true;
      if (sent.command == AdminCommand::BufferCreate) {
        buffers_.push_back({reply->values.buffer.buffer, sent.blocks, reply->values.buffer.epoch});
      }
      const bool names_stream = sent.command == AdminCommand::StreamOpen || sent.command == AdminCommand::StreamReset ||
                                sent.command == AdminCommand::StreamClose;
      if (!names_stream) return true;
      const auto& named = reply->values.stream;
      if (sent.command == AdminCommand::StreamOpen) streams_.push_back({named.stream, named.incarnation, 1});
      for (StreamHandle& s : streams_) {
        if (s.id == named.stream) s = {named.stream, named.incarnation, 1};
      }
      return true;
    });
  }
  // Of what is on its way, or was, or will be.
  void cancel() {
    const StreamHandle& s = stream();
    auto request = driver().admin_request(AdminCommand::Cancel);
    const std::uint64_t back = input_.below(8);
    request.arguments.cancel = {s.id, s.incarnation, s.next_sequence > back ? s.next_sequence - back : 0};
    const auto reply = driver().admin(request);
    require(reply.outcome == Outcome::Ok || reply.outcome == Outcome::Rejected, "a cancel is done or refused");
    collect();
  }
  // Any command. Left out is what the PF is entitled to do to others.
  void command() {
    auto request = input_.take<wire::AdminRequest>();
    const unsigned honest = input_.below(256);
    request.command = static_cast<AdminCommand>(input_.below(static_cast<unsigned>(wire::kLastAdminCommand) + 1));
    if ((honest & 1) != 0) request.magic = wire::kAdminMagic;
    if ((honest & 2) != 0) request.flags = 0;
    if ((honest & 4) != 0) request.generation = driver().generation();
    const bool about_others = request.command >= AdminCommand::FunctionReset;
    if (request.command == AdminCommand::SelfTest) {
      be_short(request);
    } else if (physical_ && about_others) {
      request.arguments.function.target = wire::kTargetSelf;
    }
    const wire::AdminReply reply = driver().admin(request);
    require(reply.outcome <= Outcome::Aborted, "the card knows five outcomes");
    require((reply.outcome == Outcome::Ok) == (reply.status == wire::Status::None), "OK has no status, all else has");
    if (request.command == AdminCommand::RegionAcquire && reply.outcome == Outcome::Ok) {
      regions_.push_back({reply.values.region.region_id, reply.values.region.generation, reply.values.region.bytes});
    }
    collect();
  }

  // Few rounds; of an echo none: nobody changes the word, and it would only take time.
  void be_short(wire::AdminRequest& request) {
    constexpr std::uint32_t kMostRounds = 16;
    auto& test = request.arguments.self_test;
    test.kind = static_cast<wire::SelfTestKind>(input_.below(4));
    test.rounds = test.kind == wire::SelfTestKind::Echo ? 0 : test.rounds % kMostRounds;
    if (input_.below(2) != 0) test.offset = wire::kHostMemoryOffset + input_.below(256) * wire::kStickBytes;
  }

  // A driver may change what it has published; the card must have made its own copy.
  void change_what_was_published() {
    changed_ = true;
    constexpr wire::Block kWhere[] = {wire::kControlBlocks, wire::kAdminRequests, wire::kCompletions};
    const wire::Block& block = kWhere[input_.below(std::size(kWhere))];
    const std::uint64_t at = block.offset + input_.below(std::min<std::uint64_t>(block.bytes, 8192) / 8) * 8;
    const bool budget =
        &block == &kWhere[0] && at % wire::kControlBlockSlotBytes == offsetof(wire::ControlBlockHeader, budget);
    if (budget) return;  // see be_brief()
    auto& word = *driver().at<std::uint64_t>(at);
    // Completions only before anything is outstanding: the driver's own bookkeeping reads them.
    if (&block == &kWhere[2] && !outstanding_.empty()) return;
    wire::store_relaxed(word, wire::load_relaxed(word) ^ input_.take<std::uint64_t>());
  }

  void resets() {
    switch (input_.below(3)) {
      case 0: {
        StreamHandle& s = stream();
        (void)driver().reset_stream(s);
        return collect();
      }
      case 1:
        require(driver().reset_queue(wire::kControlBlockQueue), "a queue reset is answered");
        collect();
        outstanding_.clear();  // what the card had not fetched is the driver's again
        driver().forget_blocks();
        require(driver().set_queue(wire::kControlBlockQueue), "a queue can be set after its reset");
        for (auto& s : streams_) ++s.incarnation, s.next_sequence = 1;
        return;
      default:
        require(driver().set_status(0) == 0, "status 0 is answered");
        collect();
        require(driver().bring_up(driver().features()), "a function comes up again");
        return begin_anew();
    }
  }

  void load_programs() {
    if (programs_) return;
    const auto opened = driver().open_stream();
    if (!opened) return;
    const auto region = driver().acquire(wire::kGranuleBytes, wire::RegionType::Program);
    if (!region) return;
    programs_ = region;
    StreamHandle s = *opened;
    drain();
    for (unsigned i = 0; i <= static_cast<unsigned>(fwtest::Program::FindsBytes); ++i) {
      // A played burst of marks uses no slice time at all, so no watchdog would ever end it.
      if (static_cast<fwtest::Program>(i) == fwtest::Program::TraceBurst) continue;
      const auto image = fwtest::image_of(static_cast<fwtest::Program>(i));
      std::memcpy(driver().at<std::byte>(wire::kHostMemoryOffset), image.data(), image.size());
      const auto end =
          driver().run(driver().dma(s, fwtest::RawDriver::host(wire::kHostMemoryOffset),
                                    fwtest::RawDriver::device(*region, i * fwtest::kImageStride), image.size()));
      require(end.outcome == Outcome::Ok, "good transfers work beside bad ones");
    }
  }

  struct Unawaited {
    std::uint16_t slot;
    AdminCommand command;
    std::uint32_t blocks;  // of BUFFER_CREATE
  };
  struct Buffer {
    std::uint32_t id;
    std::uint32_t blocks;
    std::uint64_t epoch;
  };
  // In host memory, behind what transfers use.
  static constexpr std::uint64_t kBufferAt = wire::kHostMemoryOffset + 512 * wire::kKiB;
  static constexpr std::uint64_t kPatchAt = kBufferAt + wire::kMaxBufferBlocks * wire::kBufferBlockBytes;

  Input input_;
  bool physical_;
  fuzz::NativeAttacker& attacker_ = fuzz::NativeAttacker::instance();
  std::vector<StreamHandle> streams_;
  std::vector<RegionHandle> regions_;
  std::optional<RegionHandle> programs_;
  std::map<std::uint16_t, wire::ControlBlockHeader> outstanding_;
  std::vector<Unawaited> unawaited_;
  std::vector<Buffer> buffers_;
  bool waits_without_end_ = false;
  bool changed_ = false;
};

}  // namespace

void fuzz::run(Input input) { Attack(input).run(); }
