// SPDX-License-Identifier: Apache-2.0
// Device programs over the card of shared_context.hpp: small programs whose results are known without a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "host_driver/program/device_program.hpp"
#include "tests/device/runtime/shared_context.hpp"
#include "tests/support/program_builder.hpp"

namespace svp::test {

class ProgramCard : public OneCard {
 protected:
  using Access = wire::program::Access;
  using Operand = wire::program::Operand;
  using Bytes = std::vector<std::byte>;

  static constexpr std::uint32_t kLanes = 64;

  // `sticks` sticks of DL16 in one run.
  static Operand run(std::uint32_t sticks, wire::program::Base base, unsigned argument = 0) {
    const std::uint32_t extent[] = {sticks * kLanes};
    const unsigned order[] = {0};
    Operand operand = dense_operand(wire::program::Format::Dl16, extent, order, 0);
    operand.base = base;
    operand.argument = static_cast<std::uint8_t>(argument);
    return operand;
  }
  static wire::program::Operation operation(wire::program::Opcode opcode, std::uint32_t sticks,
                                            std::initializer_list<Operand> operands) {
    auto operation = operation_of(opcode, {sticks * kLanes});
    for (const Operand& operand : operands) operation.operand[operation.operand_count++] = operand;
    return operation;
  }
  static wire::program::Operation copy(std::uint32_t sticks, const Operand& from, const Operand& to) {
    return operation(wire::program::Opcode::Copy, sticks, {from, to});
  }

  // `pairs` arguments that are read, then as many that are written, which become copies of them.
  static std::shared_ptr<const DeviceProgram> copies(unsigned pairs, std::uint32_t sticks) {
    ProgramBuilder builder;
    for (unsigned i = 0; i < 2 * pairs; ++i) {
      builder.add_argument(sticks * wire::kStickBytes, i < pairs ? Access::Read : Access::Write);
    }
    for (unsigned i = 0; i < pairs; ++i) {
      builder.add(copy(sticks, run(sticks, wire::program::Base::Argument, i),
                       run(sticks, wire::program::Base::Argument, pairs + i)));
    }
    return make("copies", builder);
  }
  // Argument 0 goes to the workspace, and from there to argument 1.
  static std::shared_ptr<const DeviceProgram> copy_through_workspace(std::uint32_t sticks) {
    ProgramBuilder builder;
    builder.add_argument(sticks * wire::kStickBytes, Access::Read);
    builder.add_argument(sticks * wire::kStickBytes, Access::Write);
    builder.pool_bytes = sticks * wire::kStickBytes;
    builder.add(copy(sticks, run(sticks, wire::program::Base::Argument, 0), run(sticks, wire::program::Base::Pool)));
    builder.add(copy(sticks, run(sticks, wire::program::Base::Pool), run(sticks, wire::program::Base::Argument, 1)));
    return make("through workspace", builder);
  }
  static std::shared_ptr<const DeviceProgram> make(const char* name, const ProgramBuilder& builder) {
    return std::make_shared<const DeviceProgram>(name, builder.build());
  }

  static Job load(const std::shared_ptr<const DeviceProgram>& program) {
    ExecutionPlan plan({Job(program)});
    context().load(plan);
    return plan.jobs()[0];
  }
  static Bytes pattern(std::uint64_t bytes, std::uint64_t seed) {
    Bytes content(bytes);
    fill_pattern(content, seed);
    return content;
  }
  // Memory of this test, with content.
  AllocationIndex holding(const Bytes& content) {
    const AllocationIndex memory = room(content.size());
    stream().Launch(Job::to_device(content.data(), memory, content.size()), {});
    stream().Synchronize(soon());
    return memory;
  }
  AllocationIndex room(std::uint64_t bytes) { return allocated_.emplace_back(allocate(bytes)); }
  static Bytes content_of(AllocationIndex memory, std::uint64_t bytes, FlexStream& on = stream()) {
    Bytes content(bytes);
    on.Launch(Job::from_device(content.data(), memory, bytes), {});
    on.Synchronize(soon());
    return content;
  }

  void TearDown() override {
    OneCard::TearDown();
    for (const AllocationIndex memory : allocated_) free(memory);
  }

 private:
  std::vector<AllocationIndex> allocated_;
};

}  // namespace svp::test
