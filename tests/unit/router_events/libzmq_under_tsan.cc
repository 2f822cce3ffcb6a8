// libzmq isn't built for ThreadSanitizer: how its threads hand messages to ours can't be seen, and
// every message that we read would be reported. What is called from within it is not looked at.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libzmq.so\n"; }
#endif
#endif
