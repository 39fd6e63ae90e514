// SPDX-License-Identifier: Apache-2.0
// What leaves the driver contains no address: not where the card keeps regions (on the PF a region's name is its
// physical base), not where this process keeps anything. Every kind of text that the stack produces is provoked on real
// parts and looked at.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "host_driver/frontend/context.hpp"
#include "tests/conformance/function_under_test.hpp"
#include "tests/conformance/hand_made_job.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using test::Workbench;
using wire::kGiB;
using wire::kMiB;

struct Range {
  std::string what;
  std::uint64_t begin, end;
};

// Texts, and what no number in them may be.
class Inspector {
 public:
  // Sizes and the like that the test chose itself and that happen to be as large as an address.
  void allow(std::uint64_t number) { allowed_.insert(number); }
  void forbid(Range range) { ranges_.push_back(std::move(range)); }
  // Every mapping of this process: windows, heap, stacks, programs.
  void forbid_own_mappings() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      Range range{line.substr(line.rfind(' ') + 1), 0, 0};
      char dash = 0;
      std::istringstream(line) >> std::hex >> range.begin >> dash >> range.end;
      if (range.end > kGiB * 4) forbid(std::move(range));
    }
  }

  void look(const std::string& what, const std::string& text) {
    ++texts_;
    EXPECT_FALSE(text.empty()) << what;
    // With or without 0x; without, a letter must be there, or it is a decimal number.
    static const std::regex hex(
        R"(0[xX][0-9a-fA-F]{8,}|\b(?=[0-9a-fA-F]*[a-fA-F])(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b)");
    for (auto it = std::sregex_iterator(text.begin(), text.end(), hex); it != std::sregex_iterator(); ++it) {
      ADD_FAILURE() << what << " contains the hexadecimal number " << it->str() << ":\n" << text;
    }
    static const std::regex number(R"(0[xX]([0-9a-fA-F]+)|([0-9]+)(\.[0-9]+)?([eE][-+]?[0-9]+)?)");
    for (auto it = std::sregex_iterator(text.begin(), text.end(), number); it != std::sregex_iterator(); ++it) {
      if ((*it)[3].matched || (*it)[4].matched) continue;  // a fraction
      const bool is_hex = (*it)[1].matched;
      look(what, std::strtoull((is_hex ? (*it)[1] : (*it)[2]).str().c_str(), nullptr, is_hex ? 16 : 10), text);
    }
  }
  void look(const std::string& what, const ErrorInfo& error) { look(what, describe(error)); }
  void look(const std::string& what, std::uint64_t number, const std::string& text = {}) {
    if (allowed_.contains(number)) return;
    for (const Range& range : ranges_) {
      EXPECT_FALSE(number >= range.begin && number < range.end)
          << what << " contains " << number << ", an address in " << range.what << ":\n"
          << text;
    }
  }
  unsigned texts() const { return texts_; }

 private:
  std::vector<Range> ranges_;
  std::set<std::uint64_t> allowed_;
  unsigned texts_ = 0;
};

// No program on this machine has its own memory below 1 TiB or above 128 TiB, and no number of these texts is as large.
const Range kHostPointers{"what a process maps", std::uint64_t{1} << 40, std::uint64_t{1} << 47};

constexpr std::uint64_t kRegionBytes = 64 * kMiB;  // small: no size of this test lies where regions do
constexpr std::uint64_t kQuotaMiB = 512;

enum What : std::uint64_t { kNothing, kLoad, kStore, kJump, kIllegal, kBadCall, kBreakpoint, kStatus };

class NoAddresses : public testing::Test {
 protected:
  void SetUp() override {
    CardOptions options = test::small_card("watchdog=200 quota_mib=" + std::to_string(kQuotaMiB));
    options.virtual_functions = 2;
    card_ = test::boot(std::move(options));
    svp::ContextOptions context;
    context.function = test::function_under_test();
    context.runtime.allocator.region_bytes = {kRegionBytes};
    context_ = svp::Context::open(card_, std::move(context));
    operand_ = allocator().allocate(4096);
    const auto at = allocator().resolve(operand_);
    operand_address_ = wire::region_window(at.region_ordinal) + at.address.offset;
    inspector_.forbid(kHostPointers);
    inspector_.forbid_own_mappings();
    forbid_regions();
  }
  // As the driver itself knows them, from an allocation in each. On a VF they are called 0 to 7.
  void forbid_regions() {
    if (test::function_under_test() != 0) return;
    for (const auto type : {RegionType::Tensor, RegionType::Program}) {
      const auto index = allocator().allocate(128, {.type = type});
      const std::uint64_t base = allocator().resolve(index).address.region_id;
      ASSERT_GE(base, 4 * kGiB) << "the region's name is not its base";
      inspector_.forbid({"a region", base, base + kRegionBytes});
      allocator().deallocate(index);
    }
  }

  FlexAllocator& allocator() const { return context_->runtime().allocator(); }
  Device& device() const { return context_->device(); }
  Inspector& inspector() { return inspector_; }

  // The text of what `act` throws.
  template <typename Kind = Error, typename Act>
  void provoke(const std::string& what, Act act) {
    try {
      act();
      ADD_FAILURE() << what << ": no error";
    } catch (const Kind& error) {
      inspector_.look(what, error.what());
    }
  }
  template <typename T>
  void expect_refused(const std::string& what, const Expected<T>& result) {
    ASSERT_FALSE(result) << what;
    inspector_.look(what, result.error());
  }

  Job endless() const {
    ExecutionPlan plan({Job(CompiledKernel(context_->kernel("spin"), {}))});
    context_->load(plan);
    return plan.jobs()[0];
  }
  void launch_stray(const std::string& what, What deed, std::uint64_t address) {
    FlexStream& stream = context_->runtime().default_stream();
    const Job job = test::job_with_symbols(*context_, "stray", 1, {address - operand_address_, deed});
    const Argument argument{.allocation = operand_, .shape = {1, 64}};
    provoke<StreamError>(what, [&] {
      stream.Launch(job, {&argument, 1}, LaunchOptions{});
      stream.Synchronize(test::soon());
    });
    provoke<StreamError>(what + ", again", [&] { stream.Launch(Job::fill(operand_, 128, 0), {}); });
    stream.Reset();
  }

  std::shared_ptr<Card> card_;
  std::unique_ptr<svp::Context> context_;
  AllocationIndex operand_ = AllocationIndex::Null;
  std::uint64_t operand_address_ = 0;
  Inspector inspector_;
};

TEST_F(NoAddresses, InErrorsAndStatisticsOfTheAllocator) {
  provoke("more than a region can be", [&] { allocator().allocate(200 * kGiB); });
  std::vector<AllocationIndex> all;
  provoke("out of memory", [&] {
    for (;;) all.push_back(allocator().allocate(kRegionBytes / 4));  // bounded: ends with the memory of the card
  });
  for (const AllocationIndex index : all) {
    inspector().look("an allocation index", static_cast<std::uint64_t>(index));
    EXPECT_GE(static_cast<std::uint64_t>(index), std::uint64_t{1} << 47) << "it could be an address";
  }
  std::ostringstream figures;
  const auto statistics = allocator().statistics();
  ASSERT_GE(statistics.regions.size(), 7u);
  figures << statistics.bytes.current << ' ' << statistics.reserved_bytes.current << ' ' << statistics.free_bytes();
  for (const auto& region : statistics.regions) {
    // Every member of it: there is none that names the region.
    const auto& [ordinal, type, bytes, free, largest, used_blocks, free_blocks] = region;
    figures << ' ' << ordinal << ' ' << type_name(type) << ' ' << bytes << ' ' << free << ' ' << largest << ' '
            << used_blocks << ' ' << free_blocks;
  }
  inspector().look("statistics", figures.str());
  allocator().deallocate(all.back());
  provoke("double free", [&] { allocator().deallocate(all.back()); });
  provoke("use after free", [&] { allocator().resolve(all.back()); });
  provoke("null handle", [&] { allocator().resolve(AllocationIndex::Null); });
  provoke("foreign handle", [&] { allocator().resolve(AllocationIndex{12345}); });
  provoke("a launch on released memory",
          [&] { context_->runtime().default_stream().Launch(Job::fill(all.back(), 128, 0), {}); });
  provoke("an overlong transfer",
          [&] { context_->runtime().default_stream().Launch(Job::fill(operand_, kGiB, 0), {}); });
  std::vector<std::byte> memory(64 * wire::kKiB);
  provoke("pinned memory that does not start on a page", [&] { HostMemory(std::span(memory).subspan(1), 0, {}); });
  provoke("out of pinned memory", [&] { context_->host_memory().allocate(8 * kGiB); });
}

TEST_F(NoAddresses, InRefusalsOfTheCard) {
  expect_refused("too large a region", device().acquire_region(RegionType::Tensor, 17 * kGiB));
  if (test::function_under_test() != 0) {
    std::vector<Region> taken;
    auto region = device().acquire_region(RegionType::Tensor, 128 * kMiB);
    for (; region; region = device().acquire_region(RegionType::Tensor, 128 * kMiB)) taken.push_back(*region);
    EXPECT_THAT(region.error().message, testing::HasSubstr("quota"));
    inspector().look("quota", region.error());
    for (const Region& held : taken) svp::value_or_throw(device().release_region(held));
  }
  Region region = svp::value_or_throw(device().acquire_region(RegionType::Tensor, 2 * kMiB));
  svp::value_or_throw(device().release_region(region));
  expect_refused("a region released twice", device().release_region(region));
  region.base.region_id = 0x80000000;
  expect_refused("a region of nobody", device().release_region(region));
  expect_refused("a stream of nobody", device().reset_stream(60));
  wire::AdminRequest bind{};
  bind.command = wire::AdminCommand::SlotBind;
  EXPECT_NE(svp::value_or_throw(device().admin(bind)).outcome, wire::Outcome::Ok);
}

// Each block with one thing wrong, as the card refuses it and the driver tells it.
TEST_F(NoAddresses, InRefusedBlocks) {
  const auto at = allocator().resolve(operand_);
  const wire::Endpoint good{
      at.address.region_id, at.address.offset, at.region_generation, wire::EndpointKind::Region, {}};
  const wire::Endpoint host{0, device().host_memory_offset(), 0, wire::EndpointKind::HostMemory, {}};
  std::vector<std::pair<const char*, wire::ControlBlock>> blocks;
  const auto endpoint = [&](const char* what, auto spoil) {
    wire::Endpoint bad = good;
    spoil(bad);
    blocks.emplace_back(what, Workbench::dma(host, bad, 128));
    blocks.emplace_back(what, Workbench::fill(bad, 128, 0));
  };
  endpoint("region of nobody", [](auto& e) { e.region_id = 0x80000000; });
  endpoint("old region", [](auto& e) { --e.generation; });
  endpoint("outside of the region", [](auto& e) { e.offset = kRegionBytes; });
  endpoint("far outside", [](auto& e) { e.offset = ~std::uint64_t{127}; });
  endpoint("between sticks", [](auto& e) { e.offset += 1; });
  endpoint("kind", [](auto& e) { e.kind = static_cast<wire::EndpointKind>(7); });
  wire::Endpoint rings = host;
  rings.offset = 0;
  blocks.emplace_back("the window's header", Workbench::dma(rings, good, 128));
  blocks.emplace_back("nothing", Workbench::fill(good, 0, 0));
  wire::ControlBlock compute{};
  compute.header.opcode = wire::Opcode::Compute;
  compute.payload.compute.image = good;
  compute.payload.compute.image_bytes = 4096;
  compute.payload.compute.core_mask = 1;
  blocks.emplace_back("an image in tensor memory", compute);
  compute.payload.compute.core_mask = std::uint64_t{1} << 63;
  blocks.emplace_back("a core of nobody", compute);
  const std::uint32_t stream = svp::value_or_throw(device().open_stream(StreamPriority::Low));
  for (const auto& [what, block] : blocks) {
    test::CompletionRecorder ends;
    const ControlBlockRequest request{&block, &ends};
    ASSERT_EQ(svp::value_or_throw(device().submit(stream, {&request, 1})), 1u);
    ASSERT_EQ(device().wait_until([&] { return ends.ended() == 1; }, test::soon()), WaitStatus::Done);
    ASSERT_EQ(ends.all().front().outcome, wire::Outcome::Rejected) << what;
    const SegmentWindows windows{};
    inspector().look(what, explain(describe_failure({block, windows, nullptr, nullptr}, ends.all().front())));
    svp::value_or_throw(device().reset_stream(stream));
  }
  for (const wire::DeviceEvent& event : device().take_events()) {
    inspector().look("an event", std::string(wire::name(event.kind)) + " " + std::string(wire::name(event.status)));
    for (const std::uint64_t number : {event.time, event.argument}) inspector().look("an event", number);
  }
}

TEST_F(NoAddresses, InFaultsOfKernels) {
  const std::uint64_t context = wire::kContextWindow;
  const std::uint64_t places[] = {0,
                                  8,
                                  0x80000000,
                                  0x80200008,
                                  4 * kGiB,
                                  4 * kGiB + 0x1234560,
                                  operand_address_ + kRegionBytes,
                                  operand_address_ + 12 * kGiB,
                                  wire::region_window(6) + 8 * kGiB,
                                  wire::region_window(wire::kProgramRegion),
                                  context - 8,
                                  context + wire::kStackOffset - 8,
                                  context + wire::kStackOffset + wire::kKernelStackBytes,
                                  context + wire::kScratchpadOffset + wire::kScratchpadBytes,
                                  context + 14 * wire::kExecutionAreaStride + wire::kPoolOffset,
                                  context + 40 * wire::kContextStride,
                                  std::uint64_t{1} << 45,
                                  ~std::uint64_t{7}};
  for (const std::uint64_t place : places) {
    for (const What deed : {kLoad, kStore, kJump}) {
      launch_stray("deed " + std::to_string(deed) + " at " + std::to_string(place), deed, place);
    }
  }
  launch_stray("an illegal instruction", kIllegal, operand_address_);
  launch_stray("an unknown call", kBadCall, operand_address_);
  launch_stray("a breakpoint", kBreakpoint, operand_address_);
  launch_stray("an address as status", kStatus, operand_address_);
  FlexStream& stream = context_->runtime().default_stream();
  const Job job = endless();
  provoke<StreamError>("watchdog", [&] {
    stream.Launch(job, {}, LaunchOptions{.budget_slices = 5});
    stream.Synchronize(test::soon());
  });
  stream.Reset();
}

TEST_F(NoAddresses, InTheEndOfACard) {
  FlexStream& stream = context_->runtime().default_stream();
  stream.Launch(endless(), {}, LaunchOptions{.budget_slices = 100'000});
  ASSERT_EQ(::kill(card_->machine().pid(), SIGKILL), 0);
  provoke<StreamError>("a launch on a card that died", [&] { stream.Synchronize(test::soon()); });
  ASSERT_TRUE(device().failure());
  inspector().look("failure()", *device().failure());
  expect_refused("a region of a dead card", device().acquire_region(RegionType::Tensor, kRegionBytes));
  expect_refused("a stream of a dead card", device().open_stream(StreamPriority::Low));
  expect_refused("a dead card", card_->open_virtual(2));
}

TEST_F(NoAddresses, InAResetBySomebodyElse) {
  const auto management = svp::value_or_throw(card_->open_management());
  wire::AdminRequest reset{};
  reset.command = wire::AdminCommand::FunctionReset;
  reset.arguments.function.target =
      test::function_under_test() == 0 ? wire::kTargetPhysical : wire::target_of_virtual(1);
  ASSERT_EQ(svp::value_or_throw(management->admin(reset)).outcome, wire::Outcome::Ok);
  ASSERT_EQ(device().wait_until([] { return false; }, test::soon()), WaitStatus::Failed);
  // Generations are as large as addresses of regions, and are shown otherwise.
  inspector().look("failure()", device().failure().value());
  provoke("a launch", [&] {
    FlexStream& stream = context_->runtime().default_stream();
    stream.Launch(Job::fill(operand_, 128, 0), {});
    stream.Synchronize(test::soon());
  });
}

TEST(NoAddressesAtBoot, InABootThatFails) {
  Inspector inspector;
  inspector.forbid(kHostPointers);
  CardOptions options = test::small_card("no_such_word=1");
  const auto card = test::boot(options);
  const auto device = card->open_physical();
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().message, testing::HasSubstr("PANIC")) << "the reason is still told";
  inspector.look("a boot that failed", device.error());
}

class NoAddressesInCommands : public test::Cli {
 protected:
  static constexpr std::uint64_t kMemory = 50 * kGiB;
  NoAddressesInCommands() {
    inspector_.forbid(kHostPointers);
    // Wherever a card may keep regions.
    inspector_.forbid({"the card's memory", 4 * kGiB, 2 * kGiB + kMemory});
    inspector_.allow(kMemory);
  }
  static std::string function() { return test::function_under_test() == 0 ? "PF" : "VF"; }
  void look_at_run(const std::string& what, std::vector<std::string> words, const test::Environment& changes = {}) {
    const auto ran = run_spyre(std::move(words), changes);
    EXPECT_EQ(ran.code, 0) << ran.output;
    inspector_.look(what, ran.output);
  }
  Inspector inspector_;
};

TEST_F(NoAddressesInCommands, OfALongLivedCard) {
  test::Program card(spyre({"boot", "--name", "card0", "--memory", "50G"}), environment());
  ASSERT_THAT(card.wait_for_line("ready"), testing::HasSubstr("card0")) << card.output();
  const test::Environment device{{"FLEX_DEVICE", function()}};
  look_at_run("spyre devices --json", {"devices", "--json"}, device);
  look_at_run("spyre devices", {"devices"}, device);
  for (const bool json : {true, false}) {
    std::vector<std::string> words{"run", "matmul", "--m", "128", "--n", "64", "--k", "64", "--seed", "1"};
    if (json) words.emplace_back("--json");
    look_at_run("spyre run matmul", words, device);
  }
  std::ifstream file(runtime() / "card0" / "card.json");
  inspector_.look("card.json", std::string(std::istreambuf_iterator<char>(file), {}));
  EXPECT_EQ(run_spyre({"stop", "card0"}).code, 0);
  EXPECT_EQ(card.wait_exit(), 0);
  inspector_.look("spyre boot --name", card.output());
}

TEST_F(NoAddressesInCommands, OfAnEmbeddedCard) {
  look_at_run("spyre boot --selftest", {"boot", "--selftest", "--memory", "50G"});
}

}  // namespace
}  // namespace svp
