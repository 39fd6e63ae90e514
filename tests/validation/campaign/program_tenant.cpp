// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/program_tenant.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "host_driver/program/device_program.hpp"
#include "host_driver/program/golden/golden.hpp"
#include "shared/device_program_names.hpp"
#include "shared/dl16.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/validation/bounds.hpp"

namespace svp::campaign {

namespace {

namespace form = wire::program;

// 512 sticks: all cores of a launch execute each operation together, with a barrier behind it.
constexpr std::uint32_t kLoopExtent[] = {128, 256};
constexpr std::uint64_t kLoopBytes = std::uint64_t{128} * 256 * sizeof(std::uint16_t);

// 64 sticks: core 0 executes each operation alone.
constexpr std::uint32_t kLoneExtent[] = {16, 256};

form::Operand operand_at(form::Base base, std::uint8_t argument, std::uint64_t offset, bool columns_first,
                         std::span<const std::uint32_t> extent = kLoopExtent) {
  static constexpr unsigned kRowsFirst[] = {0, 1}, kColumnsFirst[] = {1, 0};
  const std::span<const unsigned> order = columns_first ? kColumnsFirst : kRowsFirst;
  form::Operand operand = test::dense_operand(wire::program::Format::Dl16, extent, order, 1);
  operand.base = base;
  operand.argument = argument;
  operand.offset = offset;
  return operand;
}

void add_operation(test::ProgramBuilder& builder, form::Opcode opcode, std::initializer_list<form::Operand> operands,
                   std::span<const std::uint32_t> extent = kLoopExtent) {
  form::Operation operation = test::operation_of(opcode, extent);
  for (const form::Operand& operand : operands) operation.operand[operation.operand_count++] = operand;
  builder.add(operation);
}

constexpr std::uint64_t kPoolBytes = 2 * kLoopBytes;
// Slices. Of a launch that is tried again; more than the card's own.
constexpr std::uint64_t kLargestBudget = 20'000;

test::ProgramBuilder builder_of_three() {
  test::ProgramBuilder builder;
  builder.add_argument(kLoopBytes, form::Access::Read);
  builder.add_argument(kLoopBytes, form::Access::Read);
  builder.add_argument(kLoopBytes, form::Access::Write);
  builder.pool_bytes = kPoolBytes;
  return builder;
}

std::vector<std::byte> with_lines(test::ProgramBuilder builder) {
  for (std::uint32_t i = 0; i < builder.operations().size(); ++i) {
    builder.operations()[i].source_line = loop_program::line_of(i);
  }
  return builder.build();
}

std::vector<std::byte> loop_bytes(std::uint32_t iterations) {
  test::ProgramBuilder builder = builder_of_three();
  const form::Operand a = operand_at(form::Base::Argument, 0, 0, false),
                      b = operand_at(form::Base::Argument, 1, 0, false);
  const form::Operand sum = operand_at(form::Base::Pool, 0, 0, false),
                      turned = operand_at(form::Base::Pool, 0, kLoopBytes, true);
  builder.begin_loop(iterations);
  builder.begin_loop(1);
  add_operation(builder, form::Opcode::Add, {a, b, sum});
  add_operation(builder, form::Opcode::Neg, {sum, turned});
  builder.end_loop();
  add_operation(builder, form::Opcode::Sub, {turned, b, operand_at(form::Base::Argument, 2, 0, false)});
  builder.end_loop();
  return with_lines(std::move(builder));
}

std::vector<std::byte> lone_bytes(std::uint32_t iterations) {
  test::ProgramBuilder builder = builder_of_three();
  const auto small = [](form::Base base, std::uint8_t argument, std::uint64_t offset) {
    return operand_at(base, argument, offset, false, kLoneExtent);
  };
  const form::Operand a = small(form::Base::Argument, 0, 0), b = small(form::Base::Argument, 1, 0);
  const form::Operand sum = small(form::Base::Pool, 0, 0), turned = small(form::Base::Pool, 0, kLoopBytes / 2);
  builder.begin_loop(iterations);
  builder.begin_loop(1);
  add_operation(builder, form::Opcode::Add, {a, b, sum}, kLoneExtent);
  add_operation(builder, form::Opcode::Neg, {sum, turned}, kLoneExtent);
  builder.end_loop();
  add_operation(builder, form::Opcode::Sub, {turned, b, small(form::Base::Argument, 2, 0)}, kLoneExtent);
  add_operation(builder, form::Opcode::Neg,
                {operand_at(form::Base::Argument, 0, 0, false), operand_at(form::Base::Pool, 0, kLoopBytes, false)});
  builder.end_loop();
  return with_lines(std::move(builder));
}

std::vector<std::byte> workspace_bytes(form::Base base, std::uint32_t iterations) {
  test::ProgramBuilder builder = builder_of_three();
  builder.slices = 1;
  builder.scratchpad_bytes = kLoopBytes;
  const form::Operand a = operand_at(form::Base::Argument, 0, 0, false),
                      b = operand_at(form::Base::Argument, 1, 0, false), sum = operand_at(base, 0, 0, false);
  add_operation(builder, form::Opcode::Add, {a, b, sum});
  builder.begin_loop(iterations);
  add_operation(builder, form::Opcode::Neg, {a, operand_at(form::Base::Pool, 0, kLoopBytes, false)});
  builder.end_loop();
  add_operation(builder, form::Opcode::Copy, {sum, operand_at(form::Base::Argument, 2, 0, false)});
  return with_lines(std::move(builder));
}

std::vector<std::byte> random_numbers(std::mt19937_64& random) {
  std::vector<std::uint16_t> codes(kLoopBytes / sizeof(std::uint16_t));
  std::normal_distribution<float> normal;
  for (std::uint16_t& code : codes) code = wire::dl16_from_fp32(normal(random));
  const auto bytes = std::as_bytes(std::span(codes));
  return {bytes.begin(), bytes.end()};
}

ops::Array numbers_of(std::span<const std::byte> bytes) {
  std::vector<std::uint16_t> codes(bytes.size() / sizeof(std::uint16_t));
  std::memcpy(codes.data(), bytes.data(), bytes.size());
  ops::Array array = ops::Array::of({static_cast<std::int64_t>(codes.size())});
  std::ranges::transform(codes, array.data.begin(), [](std::uint16_t code) { return wire::fp64_from_dl16(code); });
  return array;
}

}  // namespace

std::string loop_program::text_of(std::uint32_t number) {
  static constexpr form::Opcode kOpcodes[kEnd] = {form::Opcode::LoopBegin, form::Opcode::LoopBegin, form::Opcode::Add,
                                                  form::Opcode::Neg,       form::Opcode::LoopEnd,   form::Opcode::Sub,
                                                  form::Opcode::LoopEnd};
  if (number >= kEnd) return "an operation that there is";
  return "operation " + std::to_string(number) + " (" + std::string(wire::program::name(kOpcodes[number])) +
         ") (line " + std::to_string(line_of(number)) + " of its source)";
}

TenantProgram loop_program::make(std::uint32_t iterations) { return {loop_bytes(iterations), loop_bytes(1)}; }

TenantProgram lone_program::make(std::uint32_t iterations) { return {lone_bytes(iterations), lone_bytes(1)}; }

TenantProgram workspace_program::make(form::Base base, std::uint32_t iterations) {
  return {workspace_bytes(base, iterations), workspace_bytes(base, 1)};
}

ProgramTenant::ProgramTenant(ScenarioContext& context, unsigned function, const TenantProgram& program,
                             std::mt19937_64& random)
    : context_(context), program_(open_context(context, function)) {
  plan_.add(Job(std::make_shared<const DeviceProgram>("loops", program.bytes), program_->engine()));
  program_->load(plan_);
  for (Bytes& bytes : before_) bytes = random_numbers(random);
  golden_ = before_;
  const std::vector<std::span<std::byte>> arguments(golden_.begin(), golden_.end());
  svp::program::golden::run(program.once, arguments);
  for (FlexStream*& stream : streams_) stream = &program_->runtime().next_stream(StreamPriority::Low);
  for (auto& places : memory_) {
    for (AllocationIndex& place : places) place = program_->runtime().allocator().allocate(kLoopBytes);
  }
}

void ProgramTenant::start(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices) {
  std::array<Argument, kArguments> arguments;
  for (std::size_t i = 0; i < kArguments; ++i) {
    streams_[stream]->Launch(Job::to_device(before_[i].data(), memory_[stream][i], kLoopBytes), {});
    arguments[i] = Argument::raw(memory_[stream][i]);
  }
  streams_[stream]->Launch(plan_.jobs()[0], arguments,
                           LaunchOptions{.core_mask = cores, .budget_slices = budget_slices});
}

LaunchEnd ProgramTenant::wait(std::size_t stream) { return wait_for(context_, *streams_[stream]); }

LaunchEnd ProgramTenant::launch(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices) {
  try {
    start(stream, cores, budget_slices);
  } catch (const StreamError& error) {  // one of its transfers failed before all was launched
    return {.error = error.what(), .failure = error.failure()};
  }
  return wait(stream);
}

LaunchEnd ProgramTenant::launch_until_fired(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices,
                                            ScenarioContext::Fault fault) {
  constexpr std::uint64_t kTimesMore = 4;
  for (std::uint64_t budget = budget_slices;; budget *= kTimesMore) {
    LaunchEnd end = launch(stream, cores, budget);
    const bool by_watchdog = end.failure.status == wire::Status::WatchdogExpired;
    if (!by_watchdog || budget >= kLargestBudget || context_.evidence(fault).fired != 0) return end;
    reset(stream);
  }
}

ProgramTenant::Bytes ProgramTenant::from_card(std::size_t stream, std::size_t argument) {
  Bytes bytes(kLoopBytes);
  streams_[stream]->Launch(Job::from_device(bytes.data(), memory_[stream][argument], kLoopBytes), {});
  streams_[stream]->Synchronize(ScenarioContext::Clock::now() + campaign_bounds::kBlock);
  return bytes;
}

ops::Comparison ProgramTenant::compare(std::size_t stream) {
  return ops::compare(numbers_of(from_card(stream, kResult)), numbers_of(golden_[kResult]));
}

ops::Comparison ProgramTenant::with_inverted_bit(std::uint64_t bit) const {
  Bytes inverted = golden_[kResult];
  inverted[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  return ops::compare(numbers_of(inverted), numbers_of(golden_[kResult]));
}

std::string ProgramTenant::difference_besides(std::size_t stream, std::uint64_t bit) {
  std::array<Bytes, kArguments> expected = golden_;
  expected[kResult][bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  return difference(stream, expected);
}

std::string ProgramTenant::difference(std::size_t stream, const std::array<Bytes, kArguments>& expected) {
  for (std::size_t i = 0; i < kArguments; ++i) {
    const Bytes bytes = from_card(stream, i);
    if (bytes == expected[i]) continue;
    return "argument " + std::to_string(i) + ": " +
           ops::describe(ops::compare(numbers_of(bytes), numbers_of(expected[i])));
  }
  return {};
}

std::string ProgramTenant::wrong(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices) {
  const LaunchEnd end = launch(stream, cores, budget_slices);
  return end.ok() ? difference(stream, golden_) : end.error;
}

}  // namespace svp::campaign
