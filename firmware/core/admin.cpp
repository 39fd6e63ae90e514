// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/admin.hpp"

#include <algorithm>

#include "firmware/core/buffer_commands.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/charges.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/function_commands.hpp"
#include "firmware/core/reset.hpp"
#include "firmware/core/self_test.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/memory_order.hpp"

namespace fw {

using wire::AdminCommand;
using wire::AdminReply;
using wire::AdminRequest;
using wire::Field;
using wire::Outcome;
using wire::Status;

AdminReply refusal(Status status, Field field) {
  AdminReply reply{};
  reply.outcome = Outcome::Rejected;
  reply.status = status;
  reply.field = field;
  return reply;
}

namespace {

// FaultPoint::AdminReply. Not those of FAULT_ARM: what is armed must be there to be disarmed.
[[gnu::cold, gnu::noinline]] bool reply_is_lost(Function& function, const AdminRequest& request) {
  if (request.command == AdminCommand::FaultArm) return false;
  const Occurrence occurrence{.function = function.id(), .opcode = static_cast<std::uint32_t>(request.command)};
  return function.faults().occur(wire::FaultPoint::AdminReply, occurrence).has_value();
}

void send_reply(Function& function, PendingAdmin& pending, AdminReply reply) {
  reply.cookie = pending.request.cookie;
  if (is_violation(reply.outcome, reply.status)) note_violation(function, reply.status);
  if (function.faults().armed(wire::FaultPoint::AdminReply)) [[unlikely]]
    if (reply_is_lost(function, pending.request)) {
      if (mutated(Mutant::LostReplyAlone)) function.commands.block();
      return;
    }
  wire::store_shared_words(function.at<std::uint64_t>(pending.reply), reinterpret_cast<const std::uint64_t*>(&reply),
                           sizeof reply / 8);
  function.queue(wire::kAdminQueue).push_used(pending.chain_id, pending.chain_slots, sizeof reply);
}

// ---- regions --------------------------------------------------------------------------------------------------------

// What counts against a quota: the regions of the table, released ones that launches still use, and released ones that
// are not clean yet. Else a function could hold its quota once more with each address space, and again with each
// release.
std::uint64_t charged_bytes(const Card& card, const Function& function) {
  return card.pool.granted_bytes(function.id()) + card.pool.quarantined_bytes(function.id());
}

// As this function sees the pool: its own zone and nobody's, through its quota.
void fill_pool_figures(const Card& card, const Function& function, AdminReply& reply) {
  const std::uint64_t total = card.pool.reach_bytes(function.id());
  const std::uint64_t charged = charged_bytes(card, function);
  const std::uint64_t quota = function.quota_bytes() == 0 ? total : std::min(function.quota_bytes(), total);
  const std::uint64_t left = quota - std::min(charged, quota);
  reply.values.region.free_bytes = std::min(card.pool.free_bytes(function.id()), left);
  reply.values.region.largest_bytes = std::min(card.pool.largest_bytes(function.id()), left);
  reply.values.region.total_bytes = quota;
  reply.values.region.share_bytes = share_bytes(card, function);
  reply.values.region.quarantined_bytes = card.pool.quarantined_bytes(function.id());
}

// Whether a request that the pool refused is worth waiting for: quarantined memory comes back by itself. For what the
// function itself released it waits as long as that takes. For what others did, no longer than for the scrubs that had
// begun when it asked: they may release more for ever.
bool waits_for_scrub(const Card& card, const Function& function, const PendingAdmin& pending, std::uint64_t bytes) {
  switch (card.pool.prospect(function.id(), bytes)) {
    case RegionPool::Prospect::Never: return false;
    case RegionPool::Prospect::AfterOwn: return true;
    case RegionPool::Prospect::AfterOthers: return card.pool.scrubs_ended() < pending.mark;
  }
  return false;
}

Progress wait_for_scrub(Card& card) {
  card.scrubs.hurry();
  return Progress::Waits;
}

Progress acquire_region(Card& card, Function& function, PendingAdmin& pending, bool resumed, AdminReply& reply) {
  const AdminRequest& request = pending.request;
  const auto& arguments = request.arguments.region_acquire;
  if (arguments.type != wire::RegionType::Tensor && arguments.type != wire::RegionType::Program) {
    reply = refusal(Status::BadType, Field::AdminType);
    return Progress::Answered;
  }
  constexpr std::uint64_t kMaxRegionBytes = std::uint64_t{1} << wire::kRegionShift;
  if (arguments.bytes == 0 || arguments.bytes > kMaxRegionBytes) {
    reply = refusal(Status::BadSize, Field::AdminBytes);
    return Progress::Answered;
  }
  const auto ordinal = function.regions.free_ordinal(arguments.type);
  if (!ordinal) {
    reply = refusal(ordinal.error(), Field::AdminType);
    return Progress::Answered;
  }
  if (!resumed) pending.mark = card.pool.scrubs_begun();
  const std::uint64_t bytes = wire::align_up(arguments.bytes, wire::kGranuleBytes);
  if (function.quota_bytes() != 0 && charged_bytes(card, function) + bytes > function.quota_bytes() &&
      !mutated(Mutant::Quota)) {
    if (card.pool.granted_bytes(function.id()) + bytes <= function.quota_bytes()) return wait_for_scrub(card);
    reply = refusal(Status::QuotaExceeded, Field::AdminBytes);
    fill_pool_figures(card, function, reply);
    return Progress::Answered;
  }
  const auto base = card.pool.acquire(function.id(), arguments.bytes);
  if (!base) {
    if (waits_for_scrub(card, function, pending, arguments.bytes)) return wait_for_scrub(card);
    reply = refusal(base.error(), Field::AdminBytes);
    fill_pool_figures(card, function, reply);
    return Progress::Answered;
  }
  const Region& region = function.regions.install(*ordinal, *base, bytes, arguments.type);
  reply.values.region.region_id = function.regions.region_id(*ordinal);
  reply.values.region.bytes = bytes;
  reply.values.region.generation = region.generation;
  reply.values.region.ordinal = *ordinal;
  fill_pool_figures(card, function, reply);
  return Progress::Answered;
}

// Whether bytes of the region are being moved: by the head block of a stream that is in the middle of a transfer.
bool transfer_running(Function& function, std::uint64_t region_id, std::uint32_t generation) {
  const auto names_it = [&](const wire::Endpoint& end) {
    return end.kind == wire::EndpointKind::Region && end.region_id == region_id && end.generation == generation;
  };
  const auto moves_it = [&](const Stream& stream) {
    if (stream.phase != Stream::Phase::Moving) return false;
    const wire::ControlBlock& cb = function.streams.block(stream.head).cb;
    if (cb.header.opcode == wire::Opcode::Fill) return names_it(cb.payload.fill.destination);
    return names_it(cb.payload.dma.source) || names_it(cb.payload.dma.destination);
  };
  return std::any_of(function.streams.begin(), function.streams.end(), moves_it);
}

// The handle is void at once; launches that are under way keep the memory until they have ended (protocol §7).
Progress release_region(Card& card, Function& function, const AdminRequest& request, AdminReply& reply) {
  const auto& arguments = request.arguments.region_release;
  const auto ordinal = function.regions.find(arguments.region_id, arguments.generation);
  if (!ordinal) {
    reply = refusal(ordinal.error(), Field::AdminRegion);
    return Progress::Answered;
  }
  if (transfer_running(function, arguments.region_id, arguments.generation)) {
    reply = refusal(Status::Busy, Field::AdminRegion);
    return Progress::Answered;
  }
  if (mutated(Mutant::GiveBack)) return Progress::Answered;
  if (!card.spaces.release_region(function.id(), function.regions.at(*ordinal)))
    return Progress::Waits;  // every launch ends: the watchdog
  function.regions.remove(*ordinal);
  fill_pool_figures(card, function, reply);
  return Progress::Answered;
}

// ---- streams --------------------------------------------------------------------------------------------------------

Stream* named_stream(Function& function, const AdminRequest& request, AdminReply& reply) {
  const auto& arguments = request.arguments.stream;
  if (arguments.stream >= wire::kStreamsPerFunction ||
      function.streams[arguments.stream].state() == StreamState::Closed) {
    if (!mutated(Mutant::StreamOfReset, Status::UnknownStream)) {
      reply = refusal(Status::UnknownStream, Field::AdminStream);
    }
    return nullptr;
  }
  Stream& stream = function.streams[arguments.stream];
  if (arguments.incarnation != stream.incarnation && !mutated(Mutant::StreamOfReset, Status::StaleIncarnation)) {
    reply = refusal(Status::StaleIncarnation, Field::AdminStream);
    return nullptr;
  }
  return &stream;
}

// Of mutants only: a ban ends with its stream, and is of no other one.
bool ban_stays(const Function& function, const Stream& stream) {
  if (mutated(Mutant::BanEnds)) return stream.banned;
  return mutated(Mutant::BanReaches) && std::ranges::any_of(function.streams, &Stream::banned);
}

void open_stream(Function& function, const AdminRequest& request, AdminReply& reply) {
  if (request.arguments.stream_open.priority > 1) {
    reply = refusal(Status::BadPriority, Field::AdminPriority);
    return;
  }
  for (unsigned s = 1; s < wire::kStreamsPerFunction; ++s) {
    Stream& stream = function.streams[s];
    if (stream.state() != StreamState::Closed || !stream.empty()) continue;
    const std::uint32_t incarnation = stream.incarnation + 1;
    const bool banned = ban_stays(function, stream);
    stream = Stream{};
    stream.banned = banned;
    function.streams.set_state(s, StreamState::Open);
    stream.high_priority = request.arguments.stream_open.priority != 0;
    stream.incarnation = incarnation;
    function.streams.open_timeline(s);
    reply.values.stream = {s, incarnation};
    return;
  }
  if (mutated(Mutant::TableOfStreams)) {
    reply.values.stream = {0, function.streams[0].incarnation};
    return;
  }
  reply = refusal(Status::OutOfStreams, Field::None);
}

// First call (`resumed` false) begins the reset or close; it is answered when the stream has settled. Whatever happens
// to the stream afterwards (a later open, say) is not this request's.
Progress reset_stream(Card& card, Function& function, PendingAdmin& pending, bool resumed, AdminReply& reply) {
  const std::uint32_t index = pending.request.arguments.stream.stream;
  const bool closes = pending.request.command == AdminCommand::StreamClose;
  if (!resumed) {
    const Stream* named = named_stream(function, pending.request, reply);
    if (named == nullptr) return Progress::Answered;
    if (named->banned) {
      reply = refusal(Status::StreamBanned, Field::AdminStream);
      return Progress::Answered;
    }
    if (named->empty() && !closes && mutated(Mutant::ResetIdle)) {
      reply = refusal(Status::Busy, Field::AdminStream);
      return Progress::Answered;
    }
    if (index == 0 && closes) {
      // Open from the start, and nothing could open it again.
      reply = refusal(Status::NotPermitted, Field::AdminStream);
      return Progress::Answered;
    }
    begin_stream_reset(card, function, index, closes ? StreamState::Closing : StreamState::Resetting);
    pending.mark = function.streams[index].incarnation;
  }
  const Stream& stream = function.streams[index];
  if (stream.settling() && stream.incarnation == pending.mark) return Progress::Waits;
  reply.values.stream = {index, static_cast<std::uint32_t>(pending.mark)};
  return Progress::Answered;
}

Progress cancel(Card& card, Function& function, const AdminRequest& request, AdminReply& reply) {
  if (named_stream(function, request, reply) == nullptr) return Progress::Answered;
  const auto& arguments = request.arguments.cancel;
  switch (cancel_block(card, function, arguments.stream, arguments.sequence)) {
    case Cancelled::Yes: reply.values.stream = {arguments.stream, arguments.incarnation}; break;
    case Cancelled::Ended:
      if (!mutated(Mutant::CancelEnded)) reply = refusal(Status::AlreadyEnded, Field::Sequence);
      break;
    case Cancelled::NotFetched: return Progress::Waits;
  }
  return Progress::Answered;
}

// ---- the rest -------------------------------------------------------------------------------------------------------

void report_stats(Card& card, Function& caller, const AdminRequest& request, AdminReply& reply) {
  const auto target = resolve_target(card, caller, request);
  if (!target) {
    reply = target.error();
    return;
  }
  Function& function = **target;
  reply.values = function.counters_on_the_wire();
  auto& stats = reply.values.stats;
  stats.sleeps = card.sleeps();
  stats.populated_granules = card.pool.populated_granules();
  stats.dirty_granules = card.pool.dirty_granules(function.id());
}

// Of the whole card: for M only, a function learns nothing about the others. Looks at every stream, which M may ask
// for.
void fill_card_figures(const Card& card, AdminReply& reply) {
  auto& figures = reply.values.region;
  for (const Function& function : card.functions.tenants()) {
    const StreamTable& streams = function.streams;
    figures.streams += static_cast<std::uint64_t>(std::count_if(
        streams.begin() + 1, streams.end(), [](const Stream& s) { return s.state() != StreamState::Closed; }));
    figures.launches += card.launches.under_way(function.id());
  }
  figures.arena_pages = card.spaces.arena_pages();
  figures.table_pages = hal::table_pages();
}

void query(const Card& card, const Function& function, AdminReply& reply) {
  fill_pool_figures(card, function, reply);
  reply.values.region.time = hal::now();
  reply.values.region.array_version = hal::array_version();
  if (function.manages()) fill_card_figures(card, reply);
}

// Answered when the ring is empty, or when the trace was ended meanwhile.
Progress set_trace(Card& card, Function& function, const AdminRequest& request, bool resumed, AdminReply& reply) {
  const std::uint32_t on = request.arguments.trace.on;
  if (on > 1) {
    reply = refusal(Status::BadType, Field::AdminTrace);
    return Progress::Answered;
  }
  if (on == 0) {
    card.traces.stop(function.id());
    return Progress::Answered;
  }
  if (!resumed) card.traces.start(function.id(), function.window());
  return card.traces.emptying(function.id()) ? Progress::Waits : Progress::Answered;
}

// Commands about the whole card: M only.
bool allowed_to_manage(const Function& function, AdminReply& reply) {
  if (function.manages()) return true;
  reply = refusal(Status::NotPermitted, Field::AdminCommand);
  return false;
}

// M manages; it holds no regions, opens no streams and runs nothing.
bool for_management(AdminCommand command) {
  switch (command) {
    case AdminCommand::RegionAcquire:
    case AdminCommand::RegionRelease:
    case AdminCommand::StreamOpen:
    case AdminCommand::StreamReset:
    case AdminCommand::StreamClose:
    case AdminCommand::Cancel:
    case AdminCommand::TimelineCreate:
    case AdminCommand::Trace:
    case AdminCommand::BufferCreate:
    case AdminCommand::BufferDestroy: return false;
    default: return true;
  }
}

Verdict check_request(const Function& function, const AdminRequest& request) {
  if (request.magic != wire::kAdminMagic) return {Status::BadMagic, Field::Magic};
  if (request.generation != function.generation()) return {Status::StaleGeneration, Field::Generation};
  if (request.flags != 0) return {Status::BadFlags, Field::Flags};
  return {};
}

Progress handle(Card& card, Function& function, PendingAdmin& pending, bool resumed) {
  const AdminRequest& request = pending.request;
  AdminReply reply{};
  Progress progress = Progress::Answered;
  if (const Verdict v = check_request(function, request); !v.ok()) {
    reply = refusal(v.status, v.field);
  } else if (function.manages() && !for_management(request.command) && !mutated(Mutant::ForManagement)) {
    reply = refusal(Status::NotPermitted, Field::AdminCommand);
  } else {
    switch (request.command) {
      case AdminCommand::RegionAcquire: progress = acquire_region(card, function, pending, resumed, reply); break;
      case AdminCommand::RegionRelease: progress = release_region(card, function, request, reply); break;
      case AdminCommand::StreamOpen: open_stream(function, request, reply); break;
      case AdminCommand::StreamReset:
      case AdminCommand::StreamClose: progress = reset_stream(card, function, pending, resumed, reply); break;
      case AdminCommand::Stats: report_stats(card, function, request, reply); break;
      case AdminCommand::FunctionReset: progress = reset_function(card, function, pending, resumed, reply); break;
      case AdminCommand::SlotBind: progress = bind_function(card, function, request, reply); break;
      case AdminCommand::SlotRetire: progress = retire_function(card, function, pending, resumed, reply); break;
      case AdminCommand::QuotaSet: set_quota(card, function, request, reply); break;
      case AdminCommand::FunctionQuery: query_function(card, function, request, reply); break;
      case AdminCommand::Query: query(card, function, reply); break;
      case AdminCommand::SelfTest: run_self_test(card, function, request, reply); break;
      case AdminCommand::Cancel: progress = cancel(card, function, request, reply); break;
      case AdminCommand::FaultArm:
        if (allowed_to_manage(function, reply)) fault_command(card, request, reply);
        break;
      case AdminCommand::FirmwareRestart:
        // The reply is published first: the loop restarts the firmware when this iteration is over.
        if (allowed_to_manage(function, reply)) card.request_restart();
        break;
      case AdminCommand::Trace: progress = set_trace(card, function, request, resumed, reply); break;
      case AdminCommand::BufferCreate: progress = create_buffer(card, function, pending, resumed, reply); break;
      case AdminCommand::BufferDestroy: destroy_buffer(card, function, request, reply); break;
      case AdminCommand::EventGrant: grant_event(card, function, request, reply); break;
      case AdminCommand::EventRevoke: revoke_event(card, function, request, reply); break;
      case AdminCommand::TimelineCreate: reply = refusal(Status::Unsupported, Field::AdminCommand); break;
      default: reply = refusal(Status::BadOpcode, Field::AdminCommand); break;
    }
  }
  if (progress == Progress::Answered) send_reply(function, pending, reply);
  return progress;
}

bool chain_usable(const Chain& chain) {
  return chain.well_formed && chain.readable.bytes == sizeof(AdminRequest) &&
         wire::is_aligned(chain.readable.offset, wire::kStickBytes) &&
         wire::kAdminRequests.contains(chain.readable.offset, sizeof(AdminRequest)) &&
         chain.writable.bytes >= sizeof(AdminReply) && wire::is_aligned(chain.writable.offset, wire::kStickBytes) &&
         wire::kAdminReplies.contains(chain.writable.offset, sizeof(AdminReply));
}

}  // namespace

namespace {

[[gnu::noinline]] void serve_command(Card& card, Function& function) {
  PackedQueue& queue = function.queue(wire::kAdminQueue);
  Chain chain;
  queue.take(chain);
  hal::mark(wire::Waypoint::Admin);
  if (!chain_usable(chain)) {
    ++function.counters().ring_violations;
    note_violation(function, Status::BadChain);
    queue.push_used(chain.id, chain.slots, 0);
    return;
  }
  PendingAdmin& pending = function.commands.free_place();
  wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&pending.request),
                          function.at<std::uint64_t>(chain.readable.offset), sizeof(AdminRequest) / 8);
  pending.reply = chain.writable.offset;
  pending.chain_id = chain.id;
  pending.chain_slots = chain.slots;
  hal::note(wire::RecordedEventKind::AdminCommand, static_cast<std::uint32_t>(pending.request.command), function.id());
  // A tenant's command proves nothing: it may be the one that broke the card before and will again.
  if (function.manages()) hal::mark_boot_good();
  function.charge(charge_of(pending.request.command));
  if (handle(card, function, pending, false) == Progress::Waits) function.commands.keep(pending);
}

}  // namespace

bool serve_admin(Card& card, Function& function, unsigned budget) {
  const PackedQueue& queue = function.queue(wire::kAdminQueue);
  if (!function.running() || function.reset.running()) return false;
  bool any = false;
  const std::uint64_t charged = function.charged();
  // What is taken last may be a whole quantum by itself.
  while (budget-- != 0 && !function.commands.full() && queue.ready() &&
         function.charged() - charged <= kQuantumBytes / 2) {
    any = true;
    serve_command(card, function);
  }
  if (function.charged() != charged) {
    card.plan.note_bytes(function.charged() - charged);
    card.plan.look_at_all();
  }
  return any;
}

bool progress_admin(Card& card, Function& function) {
  if (!function.commands.any() || !function.running()) return false;
  bool any = false;
  if (card.traces.emptying(function.id())) [[unlikely]] {
    card.traces.empty_part(function.id());
    function.charge(Traces::kEmptyingCost);
    card.plan.note_bytes(Traces::kEmptyingCost);
    card.plan.look_at_all();
    any = true;
  }
  const std::uint64_t charged = function.charged();
  std::uint64_t looks = 0;
  for (unsigned i = 0; i < PendingCommands::kPlaces && function.charged() - charged < kQuantumBytes / 2; ++i) {
    PendingAdmin* pending = function.commands.next_place();
    if (pending == nullptr) continue;
    // It walks along its stream, which may have as many blocks as there are credits.
    const bool walks = pending->request.command == AdminCommand::Cancel;
    if (walks) function.charge(kLightCommand);
    if (handle(card, function, *pending, true) == Progress::Waits) {
      if (walks) looks += kLightCommand;  // and has come no further
      continue;
    }
    function.commands.done(*pending);
    any = true;
  }
  const std::uint64_t spent_here = function.charged() - charged;
  if (spent_here == 0) return any;
  card.plan.note_bytes(spent_here);
  card.plan.look_at_all();
  return any || spent_here != looks;
}

}  // namespace fw
