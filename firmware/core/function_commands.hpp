// SPDX-License-Identifier: Apache-2.0
// Admin commands that are about a function: FUNCTION_RESET, SLOT_BIND, SLOT_RETIRE, QUOTA_SET, FUNCTION_QUERY,
// EVENT_GRANT, EVENT_REVOKE, and whose STATS one may read. Who may do what to whom is decided here and nowhere else
// (protocol §1).
#pragma once

#include <expected>

#include "firmware/core/function.hpp"

namespace fw {

class Card;

// Whether an admin command is answered now, or tried again by progress_admin.
enum class Progress { Answered, Waits };

// Region memory that the function is guaranteed: at most its quota, which may have been set since boot.
std::uint64_t share_bytes(const Card& card, const Function& function);

// The function that the request's first argument names, when the caller may do `request.command` to it. Else the
// refusal.
std::expected<Function*, wire::AdminReply> resolve_target(Card& card, Function& caller,
                                                          const wire::AdminRequest& request);

// First call (`resumed` false) begins; it is answered when the target has come to rest.
Progress reset_function(Card& card, Function& caller, PendingAdmin& pending, bool resumed, wire::AdminReply& reply);
Progress retire_function(Card& card, Function& caller, PendingAdmin& pending, bool resumed, wire::AdminReply& reply);

Progress bind_function(Card& card, Function& caller, const wire::AdminRequest& request, wire::AdminReply& reply);
void set_quota(Card& card, Function& caller, const wire::AdminRequest& request, wire::AdminReply& reply);
void grant_event(Card& card, Function& caller, const wire::AdminRequest& request, wire::AdminReply& reply);
void revoke_event(Card& card, Function& caller, const wire::AdminRequest& request, wire::AdminReply& reply);
void query_function(Card& card, Function& caller, const wire::AdminRequest& request, wire::AdminReply& reply);

}  // namespace fw
