cd /tmp/w/rest/.muster/copy
date; uptime
npm run test:soak -- --seed 7
echo rc $?; date; uptime
