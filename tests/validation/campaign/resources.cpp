// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/resources.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/test_stream.hpp"

namespace svp::campaign {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// In the environment of everything that this process starts, so that a process which was re-parented is found, too.
constexpr const char* kMark = "SPYRE_CAMPAIGN";
constexpr auto kBetweenLooks = campaign_bounds::kLook;

const std::string& mark() {
  static const std::string text = [] {
    const std::string value = std::to_string(::getpid());
    ::setenv(kMark, value.c_str(), 1);
    return std::string(kMark) + "=" + value;
  }();
  return text;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t started_processes() {
  const std::string wanted = mark() + '\0';
  std::size_t count = 0;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    if (contents(entry.path() / "environ").contains(wanted)) ++count;
  }
  return count;
}

std::size_t entries(const char* folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

std::size_t memory_file_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.contains("/memfd:") ? 1 : 0;
  return count;
}

template <typename Number>
void compare(std::string& text, Number before, Number now, std::string_view what) {
  if (before == now) return;
  const bool more = now > before;
  text += (text.empty() ? "" : ", ") + std::to_string(more ? now - before : before - now) + " " + std::string(what) +
          (more ? " more" : " less");
}

}  // namespace

ProcessResources count_process_resources() {
  return {started_processes(), entries("/proc/self/fd"), memory_file_mappings(), entries("/proc/self/task")};
}

ProcessResources settled_process_resources(const ProcessResources& before, std::chrono::milliseconds bound) {
  const auto limit = Clock::now() + bound;
  ProcessResources now = count_process_resources();
  while (now != before && Clock::now() < limit) {
    std::this_thread::sleep_for(kBetweenLooks);  // bounded: by `bound` of the loop
    now = count_process_resources();
  }
  return now;
}

std::string difference(const ProcessResources& before, const ProcessResources& now) {
  std::string text;
  compare(text, before.processes, now.processes, "processes");
  compare(text, before.descriptors, now.descriptors, "descriptors");
  compare(text, before.memory_files, now.memory_files, "mappings of windows");
  compare(text, before.threads, now.threads, "threads");
  return text;
}

namespace {

wire::AdminReply ask(Device& management, wire::AdminCommand command, wire::Target target) {
  wire::AdminRequest request{};
  request.command = command;
  if (command == wire::AdminCommand::FunctionQuery) request.arguments.function.target = target;
  return value_or_throw(management.admin(request));
}

}  // namespace

CardResources count_card_resources(Device& management, std::chrono::milliseconds bound) {
  const auto limit = Clock::now() + bound;
  const unsigned functions = management.config().virtual_functions + 1;
  for (;;) {
    CardResources found;
    std::uint64_t dirty = 0;
    for (wire::Target target = wire::kTargetPhysical; target < wire::kTargetPhysical + functions; ++target) {
      const auto values = ask(management, wire::AdminCommand::FunctionQuery, target).values.function;
      found.granted_bytes += values.granted_bytes;
      found.bound += values.state == wire::FunctionState::Unbound ? 0 : 1;
      dirty = values.scrub_bytes;
    }
    const auto card = ask(management, wire::AdminCommand::Query, 0).values.region;
    found.free_bytes = card.free_bytes;
    found.launches = card.launches;
    found.streams = card.streams;
    found.arena_pages = card.arena_pages;
    found.table_pages = card.table_pages;
    if (dirty == 0 || Clock::now() > limit) return found;
    std::this_thread::sleep_for(kBetweenLooks);  // bounded: by `bound` of the loop
  }
}

std::string difference(const CardResources& before, const CardResources& now) {
  std::string text;
  compare(text, before.granted_bytes, now.granted_bytes, "bytes granted");
  compare(text, before.free_bytes, now.free_bytes, "bytes of the card free");
  compare(text, before.bound, now.bound, "functions bound");
  compare(text, before.launches, now.launches, "launches");
  compare(text, before.streams, now.streams, "open streams");
  compare(text, before.arena_pages, now.arena_pages, "arena pages");
  compare(text, before.table_pages, now.table_pages, "page tables");
  return text;
}

}  // namespace svp::campaign
