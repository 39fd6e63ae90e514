// SPDX-License-Identifier: Apache-2.0
// A card of which one function asks for the dearest things while another one is busy, and the longest iteration of hart
// 0's loop meanwhile, in instructions. Nothing here depends on the clock but what the card itself does now and then (it
// beats, it polls), which is small.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shared/admin.hpp"
#include "shared/command_buffer.hpp"
#include "shared/message.hpp"
#include "tests/bench/counts/counting_card.hpp"
#include "tests/support/expected_array.hpp"
#include "tests/validation/raw/bare_slot.hpp"
#include "tests/validation/raw/raw_driver.hpp"

namespace counts {

// fw::kQuantumTicks are 60 microseconds, and the emulator executes about a thousand instructions of the firmware in one
// (docs/performance.md, "Counts"); 5000 are the loop's own part, a heartbeat, and what the last step is finished with.
inline constexpr std::uint64_t kMostInstructions = 65'000;
// Of a loop of few instructions (checksums, elements one by one) it executes two to three thousand.
inline constexpr std::uint64_t kMostOfLoops = 4 * kMostInstructions;
// A function whose cached images leave no room for another one gets a new address space in one step (docs/isolation.md,
// "What is charged").
inline constexpr std::uint64_t kMostOfANewSpace = 95'000;

// A function in the hands of a raw client.
struct Client {
  Client(CountingCard& card, unsigned slot);
  raw::BareSlot slot;
  std::function<void()> meanwhile = [] {};  // while it waits
  raw::RawDriver driver;
};

using BufferName = decltype(wire::AdminReply::Values::buffer);

class WorstQuanta : public testing::Test {
 protected:
  static constexpr unsigned kManagement = 0, kTenant = 2, kOther = 3;  // slots
  static constexpr unsigned kFirstPort = 4;                            // likewise
  static constexpr wire::Target kTenantTarget = wire::target_of_virtual(1);
  static constexpr wire::Target kOtherTarget = wire::target_of_virtual(2);
  // In the tenant's host memory: what it makes buffers, patches and programs of.
  static constexpr std::uint64_t kSource = wire::kHostMemoryOffset + wire::kMiB;

  WorstQuanta();

  // Fails when an iteration of hart 0's loop in `work` takes more than `most` instructions. `work` is done before that,
  // too, for the emulator's translations and the card's caches.
  void expect_bounded(const std::string& what, const std::function<void()>& work,
                      std::uint64_t most = kMostInstructions) {
    work();
    expect_bounded_at_once(what, work, most);
  }
  // Done once: of what cannot be done again.
  void expect_bounded_at_once(const std::string& what, const std::function<void()>& work,
                              std::uint64_t most = kMostInstructions);
  // Of what the compute array does where there is one.
  static std::uint64_t most_of_loops() { return svp::test::cards_have_array() ? kMostInstructions : kMostOfLoops; }

  // ---- rings full of the same

  // Requests go out together, so that a quantum takes as many as it may.
  void flood(raw::RawDriver& driver, const std::function<wire::AdminRequest()>& make, unsigned requests,
             wire::Outcome expected);
  static constexpr unsigned kMany = 4 * wire::kAdminSlots;
  void flood_tenant(const std::function<wire::AdminRequest()>& make, unsigned requests = kMany,
                    wire::Outcome expected = wire::Outcome::Ok) {
    flood(tenant_.driver, make, requests, expected);
  }
  void flood_manager(const std::function<wire::AdminRequest()>& make, unsigned requests = kMany) {
    flood(manager_.driver, make, requests, wire::Outcome::Ok);
  }
  // Likewise blocks of the tenant, which end OK.
  void flood_blocks(const std::function<wire::ControlBlock()>& make);
  // Both at once, on streams that are opened for it: a visit of hart 0 finds blocks and commands.
  void flood_queues(const std::function<wire::ControlBlock(raw::StreamHandle&)>& block,
                    const std::function<wire::AdminRequest()>& command, wire::Outcome of_command = wire::Outcome::Ok);
  // The tenant's control FIFO full of the same message, as often as it says; each is answered.
  void flood_messages(const std::function<wire::Message()>& make, unsigned rounds = 8);
  // Those that were submitted end OK.
  void expect_all_ok(std::size_t blocks);

  // ---- states that make a request dear

  wire::AdminRequest request(wire::AdminCommand command) const { return tenant_.driver.admin_request(command); }
  // Of M, about the tenant or another one.
  wire::AdminRequest about(wire::AdminCommand command, wire::Target target = kTenantTarget) const;
  wire::AdminReply expect_ok(raw::RawDriver& driver, const wire::AdminRequest& request) const;

  // As many as the function may have.
  std::vector<raw::StreamHandle> open_all();
  void begin_again();
  // As many blocks as a stream may have, behind a wait that nothing fulfils.
  void fill_stream(raw::StreamHandle& stream, const raw::StreamHandle& awaited);
  // Each of the tenant's streams waits for stream 0.
  void wait_everywhere();
  // What was sent before has been looked at.
  void settle() { (void)tenant_.driver.admin(request(wire::AdminCommand::Stats)); }

  raw::RegionHandle program();                                        // the tenant's, acquired when it has none
  std::vector<std::byte> empty_kernel() const;                        // its image
  void load(std::uint64_t offset, std::span<const std::byte> image);  // into program()
  // A launch of an image that lies there, with as many operands as there can be.
  wire::ControlBlock launch(raw::StreamHandle& stream, std::uint64_t offset, std::uint64_t bytes);
  // Loops of each depth around a byte, from the region into itself.
  wire::ControlBlock deepest_nest(raw::StreamHandle& stream);

  // What BUFFER_CREATE reads: the same block so many times.
  void write_buffer(const wire::ControlBlock& block, std::uint32_t blocks);
  // Full of one block.
  BufferName make_buffer(const wire::ControlBlock& block, std::uint32_t blocks = wire::kMaxBufferBlocks,
                         std::uint32_t data_bytes = 0);
  void destroy(const BufferName& buffer);
  wire::ControlBlock call_of(raw::StreamHandle& stream, const BufferName& buffer,
                             wire::Opcode opcode = wire::Opcode::Call);
  // Of the buffer's first block, by what lies at kSource.
  wire::ControlBlock patch_of(raw::StreamHandle& stream, const BufferName& buffer);
  // The names of regions mean something new: each buffer is judged again.
  void change_regions();

  // One empty block after the other, beside a wait whose budget lasts: a function with such a wait is never quiet, so
  // that the card is contended, and each function gets its smaller quanta. What has ended is counted.
  void keep_neighbour_busy();
  std::uint64_t neighbours_blocks() const { return neighbours_blocks_; }

  CountingCard card_{{.virtual_functions = 2, .ports = 1}};
  Client manager_{card_, kManagement};
  Client tenant_{card_, kTenant};
  Client other_{card_, kOther};
  raw::RegionHandle region_{};
  raw::RegionHandle program_{};
  raw::StreamHandle other_stream_;
  std::uint64_t neighbours_blocks_ = 0;
};

}  // namespace counts
