// SPDX-License-Identifier: Apache-2.0
// Writes seeds for the corpora that are real traffic: what the real driver and the real card said to each other while a
// device was attached and worked, found afterwards in the window; the attempts of the conformance suite's attacker; and
// what this version's own writers write.
//
//   fuzz_record FOLDER        one file per seed in FOLDER/<target>/; names say what it is
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "host_driver/discovery/broker_message.hpp"
#include "host_driver/discovery/card_description.hpp"
#include "host_driver/faults/script_json.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "shared/version.hpp"
#include "tests/bounds.hpp"
#include "tests/support/block_builder.hpp"
#include "tests/support/bundle_builder.hpp"
#include "tests/support/completion_sinks.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/unit/firmware/core/played_kernels.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/discovery/example_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"
#include "tests/validation/raw/attempts.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

std::filesystem::path folder;

void write(const std::string& target, const std::string& name, std::span<const std::uint8_t> bytes) {
  std::filesystem::create_directories(folder / target);
  std::ofstream file(folder / target / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + (folder / target / name).string());
}
void write(const std::string& target, const std::string& name, const std::string& text) {
  write(target, name, std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}
template <typename T>
void append(Bytes& bytes, const T& value) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), at, at + sizeof value);
}

// Attaches, works, detaches; then reads the window.
void record_device_session() {
  svp::test::NativeCard card({.window_bytes = wire::kMinWindowBytes});
  {
    const auto device = card.attach();
    if (device == nullptr) throw std::runtime_error("the native card can not be attached to");
    const auto region = device->acquire_region(svp::RegionType::Tensor, wire::kGranuleBytes).value();
    const auto stream = device->open_stream(svp::StreamPriority::High).value();
    using svp::test::Blocks;
    const auto memory = svp::test::endpoint_of(region);
    const wire::ControlBlock blocks[] = {
        Blocks::fill(memory, 4096, 7), Blocks::dma(memory, svp::test::host_endpoint(*device, 0), 4096), Blocks::nop()};
    svp::test::CompletionCounter sink;
    for (const auto& block : blocks) {
      const svp::ControlBlockRequest request{&block, &sink};
      (void)device->submit(stream, {&request, 1});
    }
    const auto limit = svp::Device::Clock::now() + test_bounds::kAnswer;
    (void)device->wait_until([&] { return sink.ended() == 3; }, limit);
    (void)device->card_statistics();
    (void)device->reset_stream(stream);
    card.pause();
    const std::byte* window = card.window(1);
    Bytes attack{0, 0};  // control_blocks: VF, without options; step 6 is any block, all put right
    for (unsigned slot = 0; slot < 3; ++slot) {
      wire::ControlBlock block;
      std::memcpy(&block, window + wire::kControlBlocks.offset + slot * wire::kControlBlockSlotBytes, sizeof block);
      append(attack, std::uint8_t{6});
      append(attack, block);
      append(attack, std::uint8_t{31});
      append(attack, std::uint8_t{0});  // of the first stream
    }
    append(attack, std::uint8_t{8});
    write("control_blocks", "driver_blocks", attack);
    Bytes commands{0, 0};
    for (unsigned slot = 0; slot < wire::kAdminSlots; ++slot) {
      wire::AdminRequest request;
      std::memcpy(&request, window + wire::kAdminRequests.offset + slot * wire::kStickBytes, sizeof request);
      if (request.magic != wire::kAdminMagic) continue;
      append(commands, std::uint8_t{12});
      append(commands, request);
      append(commands, std::uint8_t{7});
      append(commands, static_cast<std::uint8_t>(request.command));
    }
    write("control_blocks", "driver_commands", commands);
    card.resume();
  }
  card.pause();
  const auto& to_card = *reinterpret_cast<const wire::Fifo*>(card.window(1) + wire::kFifoToCard.offset);
  const auto& to_host = *reinterpret_cast<const wire::Fifo*>(card.window(1) + wire::kFifoToHost.offset);
  Bytes asked{1};  // control_messages: the PF; step 3 is a message as it stands
  for (std::uint32_t i = 0; i < std::min(to_card.written, wire::kFifoSlots); ++i) {
    append(asked, std::uint8_t{3});
    append(asked, to_card.slots[i]);
  }
  write("control_messages", "attach_to_detach", asked);
  Bytes answered;
  append(answered, std::uint32_t{0});
  for (std::uint32_t i = 0; i < std::min(to_host.written, wire::kFifoSlots); ++i) {
    append(answered, std::uint8_t{0});
    append(answered, to_host.slots[i]);
    append(answered, std::uint8_t{1});
    append(answered, std::uint8_t{3});
  }
  write("driver_messages", "attach_to_detach", answered);
  card.resume();
}

void record_attempts() {
  raw::Targets targets;
  targets.window_bytes = wire::kMinWindowBytes;
  targets.generation = 1;
  targets.functions = 1;
  targets.tensor = {0, 1, wire::kGranuleBytes};
  targets.program = {7, 2, wire::kGranuleBytes};
  targets.released = {1, 1, wire::kGranuleBytes};
  targets.foreign = {{0, 1, wire::kGranuleBytes}};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    raw::Attempts attempts(targets, seed);
    fwtest::StreamHandle stream;
    Bytes bytes{static_cast<std::uint8_t>(seed & 1), static_cast<std::uint8_t>(seed >> 1 & 1)};
    if (seed % 2 == 0) append(bytes, std::uint8_t{15});  // programs
    append(bytes, std::uint16_t{9});                     // a region of two granules
    append(bytes, std::uint8_t{1});
    for (int i = 0; i < 6; ++i) {
      append(bytes, std::uint8_t{6});
      append(bytes, attempts.control_block(stream));
      append(bytes, static_cast<std::uint8_t>(i % 2 == 0 ? 31 : 23));
      append(bytes, std::uint8_t{0});
      const auto request = attempts.admin_request();
      append(bytes, std::uint8_t{12});
      append(bytes, request);
      append(bytes, std::uint8_t{7});
      append(bytes, static_cast<std::uint8_t>(request.command));
      if (i % 3 == 2) append(bytes, static_cast<std::uint16_t>(14 | (i / 3) << 8));
    }
    write("control_blocks", "attempts_" + std::to_string(seed), bytes);
  }
}

void record_images() {
  for (const auto program : {fwtest::Program::Exit, fwtest::Program::Touches}) {
    const auto image = fwtest::image_of(program);
    write("kernel_image", "program_" + std::to_string(static_cast<unsigned>(program)),
          std::span(reinterpret_cast<const std::uint8_t*>(image.data()), image.size()));
  }
}

void record_texts() {
  svp::CardDescription card = svp::test::example_card();
  card.broker = 4710;  // the same at every run
  write("card_description", "example", svp::to_json(card));
  write("broker_messages", "card", svp::encode(svp::BrokerReply{card}));
  write("broker_messages", "done", svp::encode(svp::BrokerReply{svp::Done{}}));
  write("broker_messages", "grant", svp::encode(svp::BrokerReply{svp::Grant{.card = "card0", .slot = 3}}));
  write("broker_messages", "refusal",
        svp::encode(svp::BrokerReply{svp::ErrorInfo{.layer = svp::Layer::Driver,
                                                    .source = "request.target",
                                                    .outcome = wire::Outcome::Rejected,
                                                    .recoverable = true,
                                                    .next_step = "ask for another",
                                                    .message = "it \"is\" \xff taken"}}));
  write("broker_messages", "hello", svp::encode(svp::BrokerRequest{svp::HelloRequest{wire::kAbiVersion, {}}}));
  write("broker_messages", "reset", svp::encode(svp::BrokerRequest{svp::ResetRequest{2}}));
  write("broker_messages", "stop", svp::encode(svp::BrokerRequest{svp::StopRequest{}}));
  write("broker_messages", "prove", svp::encode(svp::BrokerReply{svp::Prove{1ull << 32 | 1}}));
  write("broker_messages", "late", svp::encode(svp::BrokerReply{svp::Late{}}));
  write("broker_messages", "proof", svp::encode(svp::BrokerRequest{svp::ProofRequest{1ull << 32 | 1}}));
  write("boot_options", "all_words",
        std::string("vfs=3 selftest=1 mapall=0 timers=1 budget_mib=4096 quota_mib=1024 watchdog=5000 on_panic=0 "
                    "strikes=3 stop_at=4 mutant=16 mutant_status=101 "
                    "loop_watchdog_ms=500"));  // reached: by nobody, it is a text
}

void record_fault_scripts() {
  using namespace svp::fault;
  Script all(7);
  for (const PointRule& rule : catalogue()) {
    for (const ActionRule& action : rule.actions) {
      Fault fault;
      fault.point = rule.point;
      fault.action = action.action;
      fault.trigger.first = Number::random(1, 9);
      if ((rule.needed & kByFunction) != 0) fault.trigger.function = wire::target_of_virtual(1);
      if ((rule.needed & kByStream) != 0) fault.trigger.stream = 0;
      if ((rule.needed & kAtRegion) != 0) fault.region = 0;
      if ((rule.needed & kAtOffset) != 0) fault.offset = Number::random(0, 4096);
      if ((rule.needed & kAtHart) != 0) fault.hart = 1;
      if ((rule.conditions & kByCore) != 0) fault.trigger.core = 0;
      if ((rule.conditions & kByProgress) != 0) fault.trigger.progress = 2;
      if ((rule.conditions & kByWaiting) != 0) fault.trigger.waiting = 1;
      if (action.segment) fault.segment = 1;
      if (!action.argument.empty()) fault.argument = Number(action.min);
      write("fault_script", "of_" + std::string(rule.name) + "_" + std::string(name(action.action)),
            to_json(Script(3).add(fault)));
      if (all.has_room(home_of(rule.point))) all.add(fault);
    }
  }
  write("fault_script", "of_each", to_json(all));
}

// Of a small kernel, so that a seed is one.
// Copies a stick to the workspace, and from there to argument 1.
std::shared_ptr<const svp::DeviceProgram> copy_program() {
  using namespace wire::program;
  svp::test::ProgramBuilder builder;
  builder.add_argument(wire::kStickBytes, Access::Read);
  builder.add_argument(wire::kStickBytes, Access::Write);
  builder.pool_bytes = wire::kStickBytes;
  const std::uint32_t extent[] = {64};
  const unsigned order[] = {0};
  Operand operands[] = {svp::test::dense_operand(Format::Dl16, extent, order, 0), {}, {}};
  operands[1] = operands[2] = operands[0];
  operands[1].base = Base::Pool;
  operands[2].argument = 1;
  for (unsigned i = 0; i < 2; ++i) {
    Operation copy = svp::test::operation_of(Opcode::Copy, {64});
    copy.operand_count = 2;
    copy.operand[0] = operands[i];
    copy.operand[1] = operands[i + 1];
    builder.add(copy);
  }
  return std::make_shared<const svp::DeviceProgram>("copy", builder.build());
}

void record_plans() {
  const svp::Job job(svp::CompiledKernel(svp::test::matmul_kernel(), {{"M", 64}, {"N", 128}, {"K", 192}}));
  const std::vector<svp::Job> two{job, job};
  const auto record = [](const std::string& name, std::span<const svp::Job> jobs, svp::SymbolicArguments arguments) {
    const svp::spyrecode::PlanFiles content = svp::content_of(jobs, arguments);
    const std::string json = svp::spyrecode::to_json(content.code);
    Bytes bytes;
    append(bytes, static_cast<std::uint16_t>(json.size()));
    for (const char c : json) append(bytes, c);
    for (const std::byte b : content.binaries.at(0).bytes) append(bytes, b);
    write("plan_directory", name, bytes);
  };
  record("symbolic", std::span(&job, 1), svp::SymbolicArguments::On);
  record("not_symbolic", std::span(&job, 1), svp::SymbolicArguments::Off);
  record("two_computations", two, svp::SymbolicArguments::On);
  const svp::Job program(copy_program());
  record("program", std::span(&program, 1), svp::SymbolicArguments::On);
  record("program_not_symbolic", std::span(&program, 1), svp::SymbolicArguments::Off);
}

// A bundle with lengths of three arguments, in both forms that the target takes.
void record_archive(const std::string& name, const std::string& text, const std::string& sdsc) {
  Bytes front{3};
  for (const unsigned sticks : {16, 200, 64}) {
    append(front, std::uint8_t{1});  // a multiple of 128
    append(front, static_cast<std::uint16_t>(sticks));
  }
  Bytes texts = front, archive = front;
  append(texts, std::uint8_t{1});
  for (const char c : text + '\0' + sdsc) append(texts, c);
  append(archive, std::uint8_t{0});
  const svp::spyrecode::NamedFiles files{{"bundle.mlir", text}, {"sdsc_0.json", sdsc}};
  for (const std::byte b : svp::spyrecode::write_archive(files)) append(archive, b);
  write("bundle_archive", name + "_texts", texts);
  write("bundle_archive", name, archive);
}

// Bundles of one operation each: what the compiler reads of them.
void record_bundles() {
  using test::BundleTensor;
  const auto matrix = [](const std::string& base) {
    return BundleTensor{.order = {"mb", "out"}, .stick = "out", .base = base};
  };
  const auto record = [](const std::string& name, const test::BundleOperation& operation, bool looped) {
    test::BundleBuilder builder(3, 8192);
    if (looped) builder.begin_loop("%i_0", 4);
    builder.add(operation);
    if (looped) builder.end_loop();
    write("bundle_text", name, builder.text());
    write("sdsc", name, builder.read("sdsc_0.json"));
    record_archive(name, builder.text(), builder.read("sdsc_0.json"));
  };
  BundleTensor tile = matrix("arg_0"), result = matrix("arg_1"), index = matrix("arg_0"), value = matrix("arg_1");
  tile.loops = {{"%i_0", 4096}};
  tile.gap = {{"mb", 96}};
  result.scale = {{"out", -2}};
  index = {.order = {"mb"}, .stick = "mb", .base = "arg_0", .format = "SENUINT32", .index = true};
  value.order = {"out", "mb"};
  value.indirect = true;
  const std::vector<std::pair<std::string, std::uint32_t>> extents{{"mb", 32}, {"out", 128}};
  record("add", {.op = "add", .extents = extents, .tensors = {matrix("arg_0"), matrix("arg_1"), matrix("arg_2")}},
         false);
  record("add_in_a_loop", {.op = "add", .extents = extents, .tensors = {tile, matrix("arg_1"), matrix("pool")}}, true);
  record("mean_with_a_mask",
         {.op = "mean",
          .extents = extents,
          .tensors = {matrix("arg_0"), result},
          .slices = {{"mb", 4}},
          .constants = {{"samv-maskvalue", 0}, {"scaling_factor", 0x3E00}},
          .masks = {{"out", {100, 28}}}},
         false);
  record("gather", {.op = "identity", .extents = extents, .tensors = {index, value, matrix("arg_2")}}, false);
  BundleTensor padded = matrix("arg_0"), narrow = matrix("arg_0");
  padded.gap = {{"mb", 28}};
  narrow.format = "IEEE_FP32";
  record("restickify",
         {.op = "ReStickifyOpHBM",
          .extents = {{"mb", 128}, {"out", 64}},
          .tensors = {padded, {.order = {"out", "mb"}, .stick = "mb", .base = "arg_1"}}},
         false);
  record("conversion", {.op = "fp32todl16", .extents = extents, .tensors = {narrow, matrix("arg_1")}}, false);
  record("scratchpad",
         {.op = "exp",
          .extents = extents,
          .tensors = {{.order = {"mb", "out"}, .stick = "out", .offset = 4096}, matrix("arg_0")},
          .slices = {{"mb", 2}, {"out", 2}}},
         false);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: fuzz_record FOLDER\n"), 2;
  GTEST_FLAG_SET(break_on_failure, true);
  folder = arguments[1];
  try {
    record_device_session();
    record_attempts();
    record_images();
    record_texts();
    record_fault_scripts();
    record_plans();
    record_bundles();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_record: %s\n", error.what());
    return 1;
  }
}
