// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/counts/worst_quanta.hpp"

#include <fmt/format.h>

#include <cstring>
#include <set>
#include <stdexcept>

#include "qemu/card.hpp"
#include "tests/support/buffer_entry.hpp"

namespace counts {

using raw::RawDriver;
using raw::StreamHandle;
using wire::AdminCommand;
using wire::ControlBlock;
using wire::Opcode;
using wire::Outcome;

namespace {

raw::BareSlot open_slot(CountingCard& card, unsigned index) {
  auto handle = card.context().card().machine().slot(index);
  if (!handle) throw std::runtime_error(qemu::to_string(handle.error()));
  return raw::BareSlot(*std::move(handle));
}

std::set<AdminCommand> commands_with_a_row;
std::set<Opcode> opcodes_with_a_row;

}  // namespace

Client::Client(CountingCard& card, unsigned index)
    : slot(open_slot(card, index)), driver(slot.window(), [this] {
        slot.pump();
        meanwhile();
      }) {}

WorstQuanta::WorstQuanta() {
  for (Client* client : {&manager_, &tenant_, &other_}) EXPECT_TRUE(client->driver.bring_up());
  region_ = tenant_.driver.acquire(4 * wire::kMiB).value();
  const auto others_region = other_.driver.acquire(4 * wire::kMiB).value();
  others_fills_ =
      make_buffer(other_.driver, other_.driver.fill(other_stream_, others_region, 0, others_region.bytes, 1));
  other_stream_ = {};
  for (Client* client : {&manager_, &tenant_}) client->meanwhile = [this] { keep_neighbour_busy(); };
  keep_neighbour_busy();
  settle(other_.driver);  // it has been fetched
}

void WorstQuanta::TearDownTestSuite() {
  const testing::TestSuite& suite = *testing::UnitTest::GetInstance()->current_test_suite();
  if (suite.test_to_run_count() != suite.total_test_count()) return;  // a filter
  for (unsigned i = 1; i <= static_cast<unsigned>(wire::kLastAdminCommand); ++i) {
    const auto command = static_cast<AdminCommand>(i);
    EXPECT_TRUE(commands_with_a_row.contains(command)) << wire::name(command) << " has no row";
  }
  for (unsigned i = 0; i <= static_cast<unsigned>(wire::kLastOpcode); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    EXPECT_TRUE(opcodes_with_a_row.contains(opcode)) << wire::name(opcode) << " has no row";
  }
}

void WorstQuanta::keep_neighbour_busy() {
  RawDriver& driver = other_.driver;
  (void)driver.collect();
  constexpr unsigned kCalls = 32;  // together longer than a second
  while (driver.blocks_under_way() < kCalls) driver.submit(driver.addressed(other_stream_, call_of(others_fills_)));
}

void WorstQuanta::expect_bounded(const std::string& what, std::initializer_list<Measured> measured,
                                 const std::function<void()>& work, std::uint64_t most) {
  work();  // once, for the emulator's translations and the card's caches
  const std::uint64_t longest = card_.longest_iteration(work);
  EXPECT_GT(other_.driver.blocks_under_way(), 0u) << "the neighbour was not busy";
  fmt::print("{:<44} {:>8} instructions\n", what, longest);
  EXPECT_LT(longest, most) << what;
  for (const Measured& one : measured) {
    if (const auto* const command = std::get_if<AdminCommand>(&one)) commands_with_a_row.insert(*command);
    if (const auto* const opcode = std::get_if<Opcode>(&one)) opcodes_with_a_row.insert(*opcode);
  }
}

// ---- rings full of the same -----------------------------------------------------------------------------------------

void WorstQuanta::flood(RawDriver& driver, const MakeRequest& make, unsigned requests, Outcome expected) {
  while (requests != 0) {
    std::vector<std::uint16_t> slots;
    for (; requests != 0 && slots.size() < wire::kAdminSlots && driver.admin_slot_free(); --requests) {
      slots.push_back(driver.send_admin(make()));
    }
    for (const std::uint16_t slot : slots) {
      const auto reply = driver.wait_admin(slot);
      ASSERT_TRUE(reply.has_value());
      ASSERT_EQ(reply->outcome, expected) << wire::name(reply->status) << " of " << wire::name(reply->field);
    }
  }
}

void WorstQuanta::ask(RawDriver& driver, const wire::AdminRequest& request) {
  const auto reply = driver.admin(request);
  EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(request.command) << ": " << wire::name(reply.status);
}

void WorstQuanta::flood_blocks(const MakeBlock& make) {
  constexpr unsigned kBlocks = wire::kStreamCredits;
  for (unsigned i = 0; i < kBlocks; ++i) tenant_.driver.submit(make());
  for (const raw::Ended& end : tenant_.driver.wait_for(kBlocks)) {
    ASSERT_EQ(end.completion.outcome, Outcome::Ok)
        << wire::name(end.completion.status) << " of " << wire::name(end.completion.field);
  }
}

wire::AdminRequest WorstQuanta::request_about(AdminCommand command, wire::Target target) const {
  auto about = manager_.driver.admin_request(command);
  about.arguments.function.target = target;
  return about;
}

// ---- states ---------------------------------------------------------------------------------------------------------

std::vector<StreamHandle> WorstQuanta::open_all(RawDriver& driver) {
  std::vector<StreamHandle> streams;
  while (auto stream = driver.open_stream()) streams.push_back(*stream);
  return streams;
}

void WorstQuanta::begin_again() {
  ASSERT_TRUE(tenant_.driver.bring_up());
  region_ = tenant_.driver.acquire(4 * wire::kMiB).value();
}

void WorstQuanta::fill_stream(StreamHandle& stream, const StreamHandle& awaited) {
  RawDriver& driver = tenant_.driver;
  driver.submit(driver.event_wait(stream, awaited, 1'000'000));
  for (unsigned i = 1; i < wire::kStreamCredits && driver.block_slot_free(); ++i) driver.submit(driver.nop(stream));
  settle();
}

void WorstQuanta::settle(RawDriver& driver) { (void)driver.admin(driver.admin_request(AdminCommand::Stats)); }

WorstQuanta::BufferHandle WorstQuanta::make_buffer(RawDriver& driver, const ControlBlock& block, unsigned blocks) {
  for (unsigned i = 0; i < blocks; ++i) {
    const ControlBlock entry = svp::test::buffer_entry(block);
    std::memcpy(driver.at<std::byte>(kSource + i * sizeof entry), &entry, sizeof entry);
  }
  auto create = driver.admin_request(AdminCommand::BufferCreate);
  create.arguments.buffer_create = {kSource, blocks, wire::kMaxBufferDataBytes};
  const auto reply = driver.admin(create);
  EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
  return reply.values.buffer;
}

ControlBlock WorstQuanta::call_of(const BufferHandle& buffer, Opcode opcode) {
  ControlBlock call{};
  call.header.opcode = opcode;
  call.payload.call = {
      .buffer = buffer.buffer, .reserved0 = 0, .epoch = buffer.epoch, .signal_base = 0, .reserved = {}};
  return call;
}

raw::GrantHandle WorstQuanta::grant(const StreamHandle& of_other, wire::Target to, const RawDriver& grantee) {
  const auto reply =
      manager_.driver.admin(manager_.driver.grant_request(kOtherTarget, other_.driver, of_other, to, grantee));
  EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
  return {reply.values.event_grant.grant, reply.values.event_grant.epoch};
}

void WorstQuanta::hold_everything(RawDriver& driver, wire::Target target, const raw::RegionHandle& region) {
  StreamHandle zero;
  for (StreamHandle& stream : open_all(driver)) driver.submit(driver.event_wait(stream, zero, 1'000'000));
  settle(driver);
  if (others_streams_.empty()) others_streams_ = open_all(other_.driver);
  for (unsigned i = 0; i < wire::kGrantsPerFunction; ++i) (void)grant(others_streams_[i], target, driver);
  constexpr unsigned kBuffers = 64;
  for (unsigned i = 0; i < kBuffers; ++i) (void)make_buffer(driver, driver.fill(zero, region, 0, 128, 1));
}

}  // namespace counts
