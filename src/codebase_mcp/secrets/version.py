"""The version of what counts as a secret."""

# Increment when different secrets are found, also by another version of Kingfisher: indexes made
# before are then rebuilt.
SECRETS_VERSION = 4
