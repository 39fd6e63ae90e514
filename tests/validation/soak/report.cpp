// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host_driver/cli/output.hpp"
#include "tests/validation/soak/soak.hpp"

namespace svp::soak {

namespace {

double seconds_of(const SoakReport& report) { return std::chrono::duration<double>(report.took).count(); }

std::string outcomes_text(const std::map<std::string, std::uint64_t>& outcomes) {
  std::string text;
  for (const auto& [outcome, count] : outcomes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, outcome);
  return text;
}

nlohmann::ordered_json json_of(const StressClientReport& client) {
  return {{"function", client.function},
          {"blocks", client.blocks},
          {"outcomes", client.outcomes},
          {"batches", client.batches},
          {"strict", client.strict},
          {"bytes_checked", client.bytes_checked},
          {"attachments", client.attachments},
          {"stream_resets", client.stream_resets},
          {"queue_resets", client.queue_resets},
          {"function_resets", client.function_resets},
          {"regions", client.regions},
          {"waits", client.waits},
          {"statistics", client.statistics},
          {"starved", client.starved}};
}

nlohmann::ordered_json json_of(const fault::WorkloadReport& workload) {
  return {{"function", workload.function},
          {"rounds", workload.rounds},
          {"results_right", workload.results_right},
          {"results_wrong", workload.results_wrong},
          {"stream_resets", workload.stream_resets},
          {"attachments", workload.attachments},
          {"outcomes", workload.outcomes}};
}

}  // namespace

std::string to_text(const SoakReport& report) {
  std::string text = "\ntenants\n";
  for (const auto& workload : report.workloads) {
    text += fmt::format("  {:<4} {} results right, {} wrong; {} stream resets, attached {} times\n", workload.function,
                        workload.results_right, workload.results_wrong, workload.stream_resets, workload.attachments);
  }
  for (const auto& client : report.clients) {
    const std::string starved =
        client.starved == 0 ? "" : fmt::format("; {} waits ran out because the card had no CPU", client.starved);
    text += fmt::format(
        "  {:<4} {} blocks: {}\n       {} batches, {} in undisturbed time and as expected; {:.1f} MiB compared; {} "
        "stream, "
        "{} "
        "queue, {} function resets; {} regions; {} waits of streams; attached {} times; the card's counters right {} "
        "times{}\n",
        client.function, client.blocks, outcomes_text(client.outcomes), client.batches, client.strict,
        static_cast<double>(client.bytes_checked) / (1 << 20), client.stream_resets, client.queue_resets,
        client.function_resets, client.regions, client.waits, client.attachments, client.statistics, starved);
  }
  text += "\ndisturbances\n";
  for (const auto& [name, count] : report.disturbances.events) text += fmt::format("  {:>7} x {}\n", count, name);
  text += "\nfaults (fired of armed)\n";
  for (const auto& [name, count] : report.disturbances.faults) {
    text += fmt::format("  {:>4} of {:>4}  {}\n", count.fired, count.armed, name);
  }
  const auto complaints = report.complaints();
  if (!complaints.empty()) text += "\n";
  for (const auto& complaint : complaints) text += "WRONG  " + complaint + "\n";
  for (const auto& left : report.left) text += "LEFT   " + left + "\n";
  return text +
         fmt::format("\n{} (seed {}, {:.1f} s)\n",
                     report.clean() ? report.interrupted ? "interrupted, clean until then" : "clean" : "NOT clean",
                     report.seed, seconds_of(report));
}

std::string to_json(const SoakReport& report) {
  nlohmann::ordered_json json = {{"schema_version", cli::kSchemaVersion},
                                 {"seed", report.seed},
                                 {"interrupted", report.interrupted},
                                 {"seconds", seconds_of(report)},
                                 {"clean", report.clean()},
                                 {"complaints", report.complaints()},
                                 {"left", report.left},
                                 {"events", report.disturbances.events},
                                 {"faults", nlohmann::ordered_json::object()},
                                 {"clients", nlohmann::ordered_json::array()},
                                 {"workloads", nlohmann::ordered_json::array()}};
  for (const auto& [name, count] : report.disturbances.faults) {
    json["faults"][name] = {{"armed", count.armed}, {"fired", count.fired}};
  }
  for (const auto& client : report.clients) json["clients"].push_back(json_of(client));
  for (const auto& workload : report.workloads) json["workloads"].push_back(json_of(workload));
  return json.dump(2);
}

}  // namespace svp::soak
