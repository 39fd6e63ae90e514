// SPDX-License-Identifier: Apache-2.0
// F20 and F22: owners in processes of their own, on a long-lived card.
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/discovery/attach.hpp"
#include "tests/support/bytes.hpp"
#include "tests/validation/campaign/long_lived_card.hpp"
#include "tests/validation/campaign/scenarios.hpp"
#include "tests/validation/campaign/tenant_process.hpp"

namespace svp::campaign {

void several_processes(ScenarioContext& context) {
  constexpr unsigned kProcesses = 3;
  LongLivedCard card(context);
  Bystander bystander(card.attach(4));
  bystander.begin();
  context.trigger();
  std::vector<std::unique_ptr<TenantProcess>> tenants;
  for (unsigned i = 1; i <= kProcesses; ++i) {
    tenants.push_back(std::make_unique<TenantProcess>(card.path(), "VF" + std::to_string(i), TenantTask::Work,
                                                      context.seed() * 10 + i));
  }
  unsigned ended = 0, right = 0;
  for (auto& tenant : tenants) {
    const auto code = tenant->wait_end(context.timeout());
    ended += code ? 1 : 0;
    right += code == 0 ? 1 : 0;
  }
  context.fired(ended == kProcesses, std::to_string(ended) + " processes with good and bad jobs");
  context.detected("jobs", right == kProcesses, std::to_string(right) + " found each of their jobs ended as it should");
  const std::string wrong = bystander.end(context.timeout());
  context.contained("neighbour", wrong.empty(),
                    wrong.empty() ? std::to_string(bystander.rounds()) + " rounds of a fourth" : wrong);
  TenantProcess next(card.path(), "VF1", TenantTask::Work, context.seed());
  context.recovered("next owner", next.wait_end(context.timeout()) == 0, "the next owner's jobs");
}

void owner_killed(ScenarioContext& context) {
  LongLivedCard card(context);
  Bystander bystander(card.attach(2));
  bystander.begin();
  // The first one has the window of the boot, the others have renewed ones.
  constexpr unsigned kOwners = 3;
  unsigned killed = 0;
  for (unsigned i = 1; i <= kOwners; ++i) {
    TenantProcess owner(card.path(), "VF1", TenantTask::Occupy, context.seed() * kOwners + i);
    if (!owner.wait_working(context.timeout())) break;
    if (i == 1) context.trigger();
    owner.kill();
    killed += owner.wait_end(context.timeout()) == 128 + SIGKILL ? 1 : 0;
  }
  context.fired(killed != 0, std::to_string(killed) + " owners killed with copies and a kernel in flight");
  // The next owner waits until the function has been retired, and finds it empty.
  const auto attached = svp::attach(card.path(), FunctionChoice::virtual_function(1));
  const auto judge_neighbour = [&] {
    const std::string wrong = bystander.end(context.timeout());
    context.contained("neighbour", wrong.empty(),
                      wrong.empty() ? std::to_string(bystander.rounds()) + " rounds of the neighbour" : wrong);
  };
  if (!attached) {
    context.detected("handed on", false, attached.error().message);
    return judge_neighbour();
  }
  const auto& next = attached->device;
  const auto serial = card.broker().description().functions.at(1).serial;
  const auto looked_at = next->host_memory().first(wire::kMiB);
  const bool empty = svp::test::all_bytes_are(looked_at, std::byte{0});
  context.detected("handed on", serial >= kOwners && empty,
                   "the function was handed on with window " + std::to_string(serial) +
                       (empty ? ", which is empty" : ", which is NOT empty"));
  BlockBuilder builder(*next);
  TestStream stream(*next);
  const std::string job = context.good_job(builder, stream);
  context.recovered("next owner", job.empty(), job.empty() ? "the next owner's job" : job);
  judge_neighbour();
  context.keep_trace(stream);
}

}  // namespace svp::campaign
