// SPDX-License-Identifier: Apache-2.0
// What a function may ask for (docs/protocol.md §6): the PF more than a VF, neither what belongs to the management
// function.
#include "tests/conformance/provider.hpp"

namespace svp::conformance {
namespace {

using test::Workbench;
using wire::AdminCommand;
using wire::Field;
using wire::Outcome;
using wire::Status;

bool physical() { return provider().kind() == wire::FunctionKind::Physical; }

wire::AdminReply ask(Device& device, AdminCommand command, const wire::AdminRequest::Arguments& arguments) {
  wire::AdminRequest request = test::admin_request(command);
  request.arguments = arguments;
  return value_or_throw(device.admin(request));
}

void expect_not_permitted(const wire::AdminReply& reply) {
  EXPECT_EQ(reply.outcome, Outcome::Rejected);
  EXPECT_EQ(reply.status, Status::NotPermitted) << wire::name(reply.status);
}

TEST(Rights, OnlyThePhysicalFunctionTestsTheCardItself) {
  const auto device = provider().open();
  wire::AdminRequest::Arguments arguments{};
  // No round is asked for: the answer tells the right and costs no time.
  arguments.self_test = {wire::SelfTestKind::Echo, 0, device->host_memory_offset()};
  const auto reply = ask(*device, AdminCommand::SelfTest, arguments);
  if (physical()) {
    EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
    arguments.self_test.offset = 0;
    const auto bad = ask(*device, AdminCommand::SelfTest, arguments);
    EXPECT_EQ(bad.outcome, Outcome::Rejected);
    EXPECT_EQ(bad.status, Status::NotHostMemory);
    EXPECT_EQ(bad.field, Field::AdminSelfTest);
  } else {
    expect_not_permitted(reply);
  }
}

// A bystander that is a VF: of the PF always, of VF 1 the second.
unsigned virtual_bystander() { return physical() ? 0 : 1; }

TEST(Rights, OnlyThePhysicalFunctionResetsAVirtualOne) {
  const auto device = provider().open();
  auto victim = provider().open_bystander(virtual_bystander());
  Workbench bench(*victim);
  wire::AdminRequest::Arguments arguments{};
  arguments.function = {wire::target_of_virtual(victim->config().function_index), 0};
  const auto reply = ask(*device, AdminCommand::FunctionReset, arguments);
  if (physical()) {
    EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
    EXPECT_GT(reply.values.function.generation, victim->config().generation);
    victim.reset();  // it was reset under its driver, which has to attach again
    victim = provider().open_bystander(virtual_bystander());
    EXPECT_EQ(Workbench(*victim).run(Workbench::nop()).outcome, Outcome::Ok);
  } else {
    expect_not_permitted(reply);
    EXPECT_EQ(bench.run(Workbench::nop()).outcome, Outcome::Ok) << "it was reset all the same";
    EXPECT_FALSE(victim->failure());
  }
}

TEST(Rights, OnlyThePhysicalFunctionReadsTheStatisticsOfOthers) {
  const auto device = provider().open();
  const auto other = provider().open_bystander(virtual_bystander());
  Workbench bench(*other);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(bench.run(Workbench::nop()).outcome, Outcome::Ok);
  wire::AdminRequest::Arguments arguments{};
  arguments.function = {wire::target_of_virtual(other->config().function_index), 0};
  const auto reply = ask(*device, AdminCommand::Stats, arguments);
  if (physical()) {
    EXPECT_EQ(reply.outcome, Outcome::Ok);
    EXPECT_EQ(reply.values.stats.completed, 3u);
  } else {
    expect_not_permitted(reply);
  }
}

TEST(Rights, OnlyThePhysicalFunctionSetsQuotas) {
  const auto device = provider().open();
  const auto other = provider().open_bystander(virtual_bystander());
  const wire::Target target = wire::target_of_virtual(other->config().function_index);
  wire::AdminRequest::Arguments arguments{};
  arguments.quota = {target, 0, 4 * wire::kMiB};
  const auto reply = ask(*device, AdminCommand::QuotaSet, arguments);
  if (physical()) {
    EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
    EXPECT_EQ(reply.values.function.quota_bytes, 4 * wire::kMiB);
    (void)value_or_throw(other->acquire_region(RegionType::Tensor, 4 * wire::kMiB));
    const auto more = other->acquire_region(RegionType::Tensor, 2 * wire::kMiB);
    ASSERT_FALSE(more);
    EXPECT_NE(more.error().message.find(wire::name(Status::QuotaExceeded)), std::string::npos)
        << describe(more.error());
    arguments.quota.bytes = 0;
    EXPECT_EQ(ask(*device, AdminCommand::QuotaSet, arguments).outcome, Outcome::Ok);
    EXPECT_TRUE(other->acquire_region(RegionType::Tensor, 2 * wire::kMiB)) << "the quota was not lifted";
  } else {
    expect_not_permitted(reply);
    (void)value_or_throw(other->acquire_region(RegionType::Tensor, 16 * wire::kMiB));
  }
}

TEST(Rights, SlotsAndFaultsBelongToTheManagementFunction) {
  const auto device = provider().open();
  const auto other = provider().open_bystander(virtual_bystander());
  const wire::Target target = wire::target_of_virtual(other->config().function_index);
  for (const AdminCommand command : {AdminCommand::SlotBind, AdminCommand::SlotRetire}) {
    wire::AdminRequest::Arguments arguments{};
    arguments.function = {target, other->config().slot};
    SCOPED_TRACE(wire::name(command));
    expect_not_permitted(ask(*device, command, arguments));
  }
  EXPECT_EQ(Workbench(*other).run(Workbench::nop()).outcome, Outcome::Ok);
}

}  // namespace
}  // namespace svp::conformance
