// kAwait: how this folder's coroutines await Asio: a tuple, its error code as a value.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace ember::http {

inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace ember::http
