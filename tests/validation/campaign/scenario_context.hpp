// SPDX-License-Identifier: Apache-2.0
// One run of one scenario: the tenants, the faults, the clock, and the proofs that it writes down.
//
// A scenario is a function that says what happens, in this order:
//   context.bystander();                              // a neighbour works from here on
//   const Fault fault = context.arm({...});          // on the card, by M
//   context.trigger();                             // the clock starts
//   … the faulting function does what meets the fault …
//   context.fired(fault);                            // evidence
//   context.detected(condition, "what was seen");
//   context.contained();                             // the neighbour, and what else the scenario wants to add
//   context.recovered(condition, "what was seen");   // for most: context.recover_stream() or context.recover_function()
// "Clean" is judged by the campaign when everything of the scenario context has been closed.
//
// Every wait is bounded by timeout(). A scenario that throws is broken off; what it had proved stands.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "host_driver/faults/fault_client.hpp"
#include "shared/fatal_record.hpp"
#include "tests/validation/campaign/artifacts.hpp"
#include "tests/validation/campaign/card_fixture.hpp"
#include "tests/validation/campaign/proof.hpp"
#include "tests/validation/campaign/scenario.hpp"
#include "tests/validation/campaign/test_stream.hpp"

namespace svp::campaign {

class ScenarioContext {
 public:
  using Clock = Device::Clock;
  using Duration = std::chrono::nanoseconds;

  // `card fixture` is null for a scenario that has its own cards.
  ScenarioContext(const Scenario& scenario, CardFixture* fixture, std::uint64_t seed, const Conditions& conditions);
  ~ScenarioContext();
  ScenarioContext(const ScenarioContext&) = delete;
  ScenarioContext& operator=(const ScenarioContext&) = delete;

  // ---- what there is to work with; opened when first asked for
  CardFixture& fixture();
  Card& card() { return *fixture().card(); }
  Device& management();
  // M of a card of the scenario's own, when its faults are armed by context.arm(). Null: no longer.
  void manage_by(std::shared_ptr<Device> management);
  Device& faulting();
  BlockBuilder& builder();  // of the faulting function
  TestStream& stream();     // likewise
  Bystander& bystander();
  std::unique_ptr<Device> open(unsigned virtual_function, OpenOptions options = {});
  FixtureOptions fixture_options() const;
  // Puts a kernel into the faulting function's Program region; the block that launches it.
  wire::ControlBlock kernel(std::string_view name, std::uint64_t budget_slices = 0);
  std::mt19937_64& random() { return random_; }
  std::uint64_t seed() const { return seed_; }
  const Scenario& scenario() const { return scenario_; }
  Duration timeout() const;

  // ---- faults of the card
  struct Fault {
    std::uint32_t row = 0;
  };
  // reserved0, operation and row are filled in; zeros of stream, opcode and function mean what they say (use
  // any_fault() to start with "any"). Throws svp::Error when M does not take it.
  Fault arm(wire::FaultSpec spec);
  // The same, for a card of the scenario's own. Throws svp::Error when the trigger counts what the machine decides:
  // slices, beats, iterations, time.
  static const wire::FaultSpec& checked(const wire::FaultSpec& spec);
  wire::FaultEvidence evidence(Fault row);
  void disarm(Fault row);
  // Bytes of regions that the faulting function may hold; 0: no quota. Throws svp::Error.
  void set_quota(std::uint64_t bytes);
  static wire::FaultSpec any_fault(wire::FaultPoint point, wire::FaultAction action);
  // Aimed at the faulting function, once.
  static wire::FaultSpec fault_at_faulting(wire::FaultPoint point, wire::FaultAction action);

  // ---- the clock
  void trigger();

  // ---- proofs. A second call about the same proof adds to it: all have to hold. Each thing that a scenario says it
  // shows (a bad CRC refused, rings cleared, …) has a name: tests/mutants says what leaves it out. Only evidence has
  // none. Here `seen` is worth saying when the claim does not hold; the name says it when it does.
  void claim(Proof proof, std::string_view name, bool holds, const std::string& seen = {});
  void fired(Fault fault);
  void fired(bool holds, const std::string& seen) { prove(Proof::Fired, holds, seen); }
  void detected(std::string_view name, bool holds, const std::string& seen);
  // The bystander function got on and is whole.
  void contained();
  void contained(std::string_view name, bool holds, const std::string& seen) {
    prove(Proof::Contained, holds, seen, name);
  }
  void recovered(std::string_view name, bool holds, const std::string& seen);
  void clean(std::string_view name, bool holds, const std::string& seen) { prove(Proof::Clean, holds, seen, name); }

  // ---- usual ways to be detected and to recover
  // Of a block: the outcome, and the status unless it is None. `end` empty: it did not end.
  void detected_as(const std::optional<wire::Completion>& end, wire::Outcome outcome, wire::Status status);
  // The faulting function's stream() is reset, and a good job on it is right.
  void recover_stream();
  // The faulting function's device is closed and opened again (function reset), and a good job is right.
  void recover_function();
  // Data to the card, on it, and back, compared. Empty: right. Of the faulting function, which is opened if it is not.
  std::string good_job();
  std::string good_job(BlockBuilder& builder, TestStream& stream);

  // A test stream of the scenario's own, for the trace.
  void keep_trace(const TestStream& stream);
  // What the boot of the firmware before this one left, asked of a new M; waits for that boot. Nothing: no whole
  // record.
  std::optional<wire::FatalRecord> record_of_last_boot();
  // Closes what is open, in the order in which that may be done. `why` of a death is swallowed here: the campaign
  // counts.
  void close();
  void close_faulting();
  // For scenarios that used up the card fixture (the card is dead, or was replaced).
  void spoil_fixture() { spoilt_ = true; }
  bool spoilt() const { return spoilt_; }
  Result take_result() { return std::move(result_); }
  Result& result() { return result_; }

 private:
  void prove(Proof proof, bool holds, const std::string& seen, std::string_view claim = {});
  void keep_headers();

  const Scenario& scenario_;
  CardFixture* fixture_;
  std::uint64_t seed_;
  Conditions conditions_;
  bool spoilt_ = false;
  bool kept_ = false;  // headers: when the card is gone there are none to look at
  std::mt19937_64 random_;
  Result result_;
  Clock::time_point origin_{};
  std::shared_ptr<Artifacts> artifacts_ = std::make_shared<Artifacts>();

  std::shared_ptr<Device> management_;
  std::unique_ptr<Bystander> bystander_;
  std::unique_ptr<Device> faulting_;
  std::unique_ptr<BlockBuilder> builder_;
  std::unique_ptr<TestStream> stream_;
  std::uint64_t next_image_ = 0;
  std::uint32_t next_row_ = 0;
  std::vector<std::uint32_t> free_rows_;  // disarmed, and taken again when there are no new ones
};

// A function (VF3) with blocks on their way when the whole card goes: all of them have to end, once, typed. Some are
// short; behind a kernel that does not end by itself others are held, so that the card certainly goes under them.
class Observer {
 public:
  explicit Observer(ScenarioContext& context);
  // Keeps blocks on their way until the device has failed; nothing when it did not, within the scenario context's
  // timeout.
  std::optional<ErrorInfo> wait_for_failure();
  ScenarioContext::Clock::time_point last_good() const { return last_good_; }
  bool waits() const { return stream_.ended() < stream_.submitted(); }
  // What is wrong with the endings; empty: each block ended once, OK before and LOST or INDETERMINATE after.
  std::string typed() const;
  Device& device() { return *device_; }

 private:
  ScenarioContext& context_;
  std::unique_ptr<Device> device_;
  BlockBuilder builder_;
  TestStream stream_;
  TestStream held_;
  ScenarioContext::Clock::time_point last_good_{};
};

}  // namespace svp::campaign
