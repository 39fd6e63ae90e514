// SPDX-License-Identifier: Apache-2.0
// A record is believed when it is whole, and told in words.
#include "host_driver/debug/fatal_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "shared/recorded_states.hpp"
#include "tests/unit/host_driver/debug/example_record.hpp"

namespace svp {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::byte> bytes_of(const wire::FatalRecord& record) {
  const auto bytes = std::as_bytes(std::span(&record, 1));
  return {bytes.begin(), bytes.end()};
}

std::string refusal(const wire::FatalRecord& record) {
  const auto parsed = parse_record(bytes_of(record));
  return parsed ? "accepted" : parsed.error().message;
}

TEST(FatalReport, AWholeRecordIsAccepted) {
  const auto record = test::example_record();
  const auto parsed = parse_record(bytes_of(record));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::memcmp(&*parsed, &record, sizeof record), 0);
}

TEST(FatalReport, WhatIsNoneOrAnotherVersionIsNamed) {
  EXPECT_THAT(refusal({}), HasSubstr("no fatal record"));
  EXPECT_FALSE(parse_record({}));
  auto record = test::example_record();
  record.version = 1;
  EXPECT_THAT(refusal(record), HasSubstr("version 1"));
}

RC_GTEST_PROP(FatalReport, OneFlippedBitIsNoticed, ()) {
  auto bytes = bytes_of(test::example_record());
  const auto bit = *rc::gen::inRange<std::size_t>(0, bytes.size() * 8);
  bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  RC_ASSERT(!parse_record(bytes).has_value());
}

// Numbers beyond their enumerations come from a newer firmware whose checksum is right: told, not believed.
RC_GTEST_PROP(FatalReport, WhateverARecordSaysCanBeTold, ()) {
  auto record = test::example_record();
  auto* words = reinterpret_cast<std::uint32_t*>(&record);
  for (auto changes = *rc::gen::inRange(1, 50); changes > 0; --changes) {
    words[*rc::gen::inRange<std::size_t>(0, sizeof record / 4)] = *rc::gen::arbitrary<std::uint32_t>();
  }
  const auto parsed = parse_record(bytes_of(test::sealed(record)));
  if (!parsed) return;
  RC_ASSERT(!to_text(*parsed, nullptr).empty());
  RC_ASSERT(!to_json(*parsed, nullptr).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).empty());
}

TEST(FatalReport, TellsKindPlaceAndWhoDidNotAnswer) {
  const auto record = test::example_record();
  const std::string text = to_text(record, nullptr);
  EXPECT_THAT(text, HasSubstr("firmware ended by trap: on purpose"));
  EXPECT_THAT(text, HasSubstr("load access fault (mcause 0x5), value 0x18"));
  EXPECT_THAT(text, HasSubstr("hart  1: asleep"));
  EXPECT_THAT(text, HasSubstr("hart  2: no answer, last in \"DMA\""));
  EXPECT_THAT(text, Not(HasSubstr("hart  3")));
  EXPECT_LT(text.find("POST: memory"), text.find("POST: ready")) << "oldest first";
  const auto json = to_json(record, nullptr);
  EXPECT_EQ(json.at("kind"), "trap");
  EXPECT_EQ(json.at("waiting_for"), nlohmann::json::array({2}));
  EXPECT_EQ(json.at("harts").size(), 3u);
  EXPECT_EQ(json.at("harts").at(0).at("registers").at("a0"), "0x80000a0a");
  EXPECT_FALSE(json.at("harts").at(2).contains("pc"));
}

TEST(FatalReport, ChangesOfStatesAreToldByName) {
  using wire::RecordedChange, wire::RecordedMachine;
  auto record = test::example_record();
  auto add = [&, at = 1u](RecordedChange change, std::uint64_t whose) mutable {
    record.events[at++] = {30, wire::RecordedEventKind::StateChanged, change.pack(), whose};
  };
  add({RecordedMachine::Stream, 1, 2}, 3 | std::uint64_t{5} << 32);
  add({RecordedMachine::FunctionReset, 2, 3}, 3);
  add({RecordedMachine::Card, 5, 7}, 0);
  const std::string text = to_text(record, nullptr);
  EXPECT_THAT(text, HasSubstr("stream 5 of function 3: open -> poisoned"));
  EXPECT_THAT(text, HasSubstr("reset of function 3: stopping -> released"));
  EXPECT_THAT(text, HasSubstr("card: functions -> ready"));
}

}  // namespace
}  // namespace svp
