// SPDX-License-Identifier: Apache-2.0
// A hostile tenant that never waits: admin requests (streams reset, closed and opened, regions acquired and released,
// command buffers made and destroyed, blocks cancelled, traces switched, self-tests, figures asked for) are sent
// without waiting for their replies, together with control blocks of the incarnation that a stream will have next, and
// with resets of the queue and of the function in between. The blocks are of every kind: transfers, DMAs that may be
// moved ahead, kernels, signals, waits for streams of its own and by grants, calls, prepared launches and patches.
//
// What it holds the card to: each request is answered once, no block ends twice, resets are answered, and a trace that
// is switched on behind a reset of the function holds nothing that was before it. Throws Broken when the card breaks
// that. What the card's own state has to look like meanwhile says the test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/validation/raw/raw_driver.hpp"

namespace raw {

class UnawaitedRequests {
 public:
  struct Image {
    std::vector<std::byte> bytes;
    std::uint64_t offset = 0;  // in the Program region; set by begin()
  };
  // Attacked streams: few, so that requests meet.
  static constexpr unsigned kFewStreams = 6;
  // The driver's pump lets card and cores work for a while. Images may be empty (a card without kernels); a kernel that
  // never ends is welcome, it is ended by resets. More than kFewStreams `streams` are opened by begin(); now and then
  // all of them wait for one, which is closed and opened anew.
  UnawaitedRequests(RawDriver& driver, std::vector<Image> images, std::uint64_t seed, unsigned streams = kFewStreams);

  // From status 0: a trace, which may be ended again, two regions, the images and the streams. Grants are forgotten:
  // the reset has revoked them.
  void begin();
  // M has granted this timeline: waits for it are submitted from now on. A grant that is gone is used all the same.
  void know_grant(const GrantHandle& grant, const StreamHandle& awaited);
  // One random action, and what has been answered meanwhile.
  void step();
  // Resets every stream and waits until nothing is outstanding.
  void drain();

  std::uint64_t requests() const { return requests_; }
  std::uint64_t blocks() const { return blocks_; }
  std::uint64_t blocks_ok() const { return blocks_ok_; }
  std::uint64_t queue_resets() const { return queue_resets_; }
  std::uint64_t function_resets() const { return function_resets_; }
  // Blocks of one kind that ended OK: what did not is no evidence that the card came so far.
  std::uint64_t ended_ok(wire::Opcode opcode) const { return ended_ok_[static_cast<unsigned>(opcode)]; }
  std::uint64_t granted_waits_ok() const { return granted_waits_ok_; }
  // COMPUTE blocks for cores 0 and 1 that ended OK.
  std::uint64_t two_core_launches_ok() const { return two_core_launches_ok_; }
  // How often a stream that others were to wait for was closed and opened anew.
  std::uint64_t reopenings() const { return reopenings_; }

 private:
  struct Known {  // of a stream, as last told
    std::uint32_t incarnation = 0;
    std::uint64_t next_sequence = 1;
    bool open = false;
    std::uint64_t signalled = 0;  // the largest value that was submitted
  };
  struct Buffer {
    std::uint32_t id;
    std::uint64_t epoch;
    std::uint32_t blocks;
    bool launch;  // one COMPUTE and nothing else
  };
  struct Granted {
    GrantHandle grant;
    StreamHandle awaited;
  };
  struct Pending {
    std::uint16_t slot;
    wire::AdminCommand command;
    std::uint32_t blocks;  // of BUFFER_CREATE
    bool launch;           // likewise
  };

  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  StreamHandle guess(unsigned stream);
  void load_image(Image& image);
  void begin_trace();
  void open_streams();
  bool room_for_block();
  void submit(const wire::ControlBlock& block);
  void submit_burst();
  wire::ControlBlock make_block(StreamHandle& stream);
  wire::ControlBlock make_launch(StreamHandle& stream);
  wire::ControlBlock make_dma(StreamHandle& stream, bool ahead);
  wire::ControlBlock make_transfer(StreamHandle& stream);
  wire::ControlBlock make_event(StreamHandle& stream);
  wire::ControlBlock make_call(StreamHandle& stream);
  wire::ControlBlock make_patch(StreamHandle& stream);
  // What a command buffer may hold.
  wire::ControlBlock make_entry();
  wire::AdminRequest make_region_request();
  wire::AdminRequest make_buffer_request();
  wire::AdminRequest make_other_request();
  void send(const wire::AdminRequest& request);
  void send_request();
  wire::AdminRequest make_request();
  void take_replies();
  void note_reply(const Pending& pending, const wire::AdminReply& reply);
  void take_blocks();
  void reset_queue();
  void reopen_awaited();
  void end_streams();

  RawDriver& driver_;
  std::vector<Image> images_;
  std::mt19937_64 random_;
  const unsigned attacked_streams_;
  std::vector<Known> streams_;
  std::vector<Pending> pending_;
  std::vector<RegionHandle> regions_;
  std::vector<Buffer> buffers_;
  std::vector<Granted> grants_;
  bool entries_launch_ = false;  // of the buffer that was asked for last
  RegionHandle program_{};
  std::uint64_t requests_ = 0;
  std::uint64_t blocks_ = 0;
  std::uint64_t blocks_ok_ = 0;
  std::uint64_t queue_resets_ = 0;
  std::uint64_t function_resets_ = 0;
  std::array<wire::Opcode, wire::kControlBlockSlots> opcode_of_{};  // by the block's slot
  std::array<bool, wire::kControlBlockSlots> by_grant_{};           // likewise: a wait for another function's stream
  std::array<bool, wire::kControlBlockSlots> on_two_cores_{};       // likewise: a COMPUTE for cores 0 and 1
  std::uint64_t granted_waits_ok_ = 0;
  std::uint64_t two_core_launches_ok_ = 0;
  std::uint64_t reopenings_ = 0;
  std::array<std::uint64_t, 256> ended_ok_{};  // by opcode
};

}  // namespace raw
